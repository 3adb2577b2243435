// each.h: loops whose indices are constants, for arrays that are meant to be registers. In ordinary loops GCC keeps an
// array of accumulators in memory beside the registers, and stores to it in every round.
#pragma once

#include <utility>

#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA {

template <int... kIndex, class F>
[[gnu::always_inline]] ESPALIER_LANES inline void each_of(F&& f, std::integer_sequence<int, kIndex...>) {
  (f(std::integral_constant<int, kIndex>()), ...);
}

// f(0), f(1), ... f(kCount - 1), each index a type of its own.
template <int kCount, class F>
[[gnu::always_inline]] ESPALIER_LANES inline void each(F&& f) {
  each_of(f, std::make_integer_sequence<int, kCount>());
}

// f(0, 0), f(0, 1), ... f(kFirst - 1, kSecond - 1)
template <int kFirst, int kSecond, class F>
[[gnu::always_inline]] ESPALIER_LANES inline void each(F&& f) {
  each<kFirst>([&](auto i) { each<kSecond>([&](auto j) { f(i, j); }); });
}

}  // namespace espalier::kernels::ESPALIER_ISA
