// simd.h (AVX2 + AVX-VNNI, every Intel laptop since 2021 and Zen 5): AVX2's vectors with the dot product of four bytes.
// It does not saturate, so the same sums as AVX2's in one instruction instead of two to seven.
#pragma once

#include "kernels/cpu/avx2/simd.h"

namespace espalier::kernels::avxvnni {

// Sixteen lanes in AVX2 with AVX-VNNI.
struct Simd : avx2::Simd {
  static constexpr int kInt8Rows = 4, kInt8Panels = 1;  // 8 integer accumulators
  static constexpr int kPeakChains = 6;
  static constexpr bool kPairSums = false, kCentredDot = false;

  template <bool kSmall>
  static inline I dot4(I acc, B w, A a) {
    return {{_mm256_dpbusd_avx_epi32(acc.v[0], w.v[0], a.bytes), _mm256_dpbusd_avx_epi32(acc.v[1], w.v[1], a.bytes)}};
  }
};

}  // namespace espalier::kernels::avxvnni
