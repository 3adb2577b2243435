// for_lanes.h: a row in runs of sixteen lanes, and sums over a row in one order.
#pragma once

#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA {

// Calls f(offset, lanes) for runs of 16, the last one shorter; in any order.
template <class F>
ESPALIER_LANES inline void for_lanes(std::int64_t n, F f) {
  std::int64_t i = std::int64_t{16} * row_part();
  for (; i + 16 <= n; i += std::int64_t{16} * row_parts()) f(i, 16);
  if (i < n) f(i, static_cast<int>(n - i));
}

// The same in order, for what goes from one run to the next.
template <class F>
ESPALIER_LANES inline void for_lanes_in_order(std::int64_t n, F f) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(i, 16);
  if (i < n) f(i, static_cast<int>(n - i));
}

// Sixteen floats, or the first m of them. Masked stores are slow on some processors, and m is mostly known to be 16
// where for_lanes is inlined.
[[gnu::always_inline]] ESPALIER_LANES inline Simd::F load_some(const float* p, int m) {
  return m == 16 ? Simd::load(p) : Simd::load_n(p, m);
}
[[gnu::always_inline]] ESPALIER_LANES inline void store_some(float* p, Simd::F x, int m) {
  if (m == 16)
    Simd::store(p, x);
  else
    Simd::store_n(p, x, m);
}

// join(... values(offset, lanes)) over a row: four chains, run r of sixteen in chain r % 4, whose results are joined in
// pairs. The chains hide the latency of one; the order depends on n alone.
template <class Join, class Values>
ESPALIER_LANES inline Simd::F fold_row(std::int64_t n, Simd::F start, Join join, Values values) {
  Simd::F chain[4] = {start, start, start, start};
  std::int64_t i = 0;
  for (; i + 64 <= n; i += 64) each<4>([&](auto c) { chain[c] = join(chain[c], values(i + 16 * c, 16)); });
  each<4>([&](auto c) {
    const std::int64_t left = n - i - 16 * c;
    if (left > 0) chain[c] = join(chain[c], values(i + 16 * c, left < 16 ? static_cast<int>(left) : 16));
  });
  return join(join(chain[0], chain[1]), join(chain[2], chain[3]));
}

// The sum of values(offset, lanes), which are zero in the lanes behind `lanes`.
template <class Values>
ESPALIER_LANES inline float sum_row(std::int64_t n, Values values) {
  return Simd::reduce_add(fold_row(n, Simd::zero(), [](Simd::F a, Simd::F b) { return Simd::add(a, b); }, values));
}

}  // namespace espalier::kernels::ESPALIER_ISA
