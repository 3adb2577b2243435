// simd.h (NEON with I8MM, ARMv8.6: Graviton 3, Ampere One, Apple M2 and later): NEON's vectors with the dot product of
// unsigned codes and signed activations, which needs no detour for codes of 128 and above, and the product of two rows
// with two columns (pair_tile.h). The same sums as NEON's.
#pragma once

#include "kernels/cpu/neon/simd.h"

namespace espalier::kernels::i8mm {

// Sixteen lanes in NEON with I8MM.
struct Simd : neon::Simd {
  template <bool kSmall>
  static inline I dot4(I acc, B w, A a) {
    return map<I>([&](int q) { return vusdotq_s32(acc.v[q], w.v[q], a.v); });
  }
};

}  // namespace espalier::kernels::i8mm
