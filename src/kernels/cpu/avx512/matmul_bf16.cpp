// bf16 x bf16 by the dot product that Zen 4, Sapphire Rapids and later have; compiled with -mavx512bf16.
#if defined(__x86_64__)
#define ESPALIER_ISA avx512
#include "kernels/cpu/avx512/simd.h"
#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/peak.h"

namespace espalier::kernels::avx512 {

// A type of this file only: were it the WidenedPairs of generic/matmul.h under another #if, the linker would choose one
// of two for both, also on processors without these instructions.
struct DotPairs {
  static constexpr int kMaxRows = Simd::kFloatRows, kMaxPanels = Simd::kFloatPanels;
  using Weights = __m512bh;
  using Row = __m512bh;
  static Weights load(const std::uint8_t* w) { return reinterpret_cast<__m512bh>(_mm512_loadu_si512(w)); }
  static Row spread(const std::uint16_t* x) {
    std::int32_t two;
    __builtin_memcpy(&two, x, 4);
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
  }
  static Simd::F add(Simd::F sum, Weights w, Row x) { return {_mm512_dpbf16_ps(sum.v, w, x)}; }
};

double peak_bf16_dot(std::int64_t rounds) {
  __m512 acc[Simd::kPeakChains];  // not Simd::F: g++ would keep those in memory here
  each<Simd::kPeakChains>([&](auto i) { acc[i] = _mm512_set1_ps(0.5f); });
  const __m512bh x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3c003c00)), y = x;
  for (std::int64_t round = 0; round < rounds; ++round)
    each<Simd::kPeakChains>([&](auto i) {
      acc[i] = _mm512_dpbf16_ps(acc[i], x, y);
      asm volatile("" : "+v"(acc[i]));
    });
  return 2.0 * 32 * Simd::kPeakChains * static_cast<double>(rounds);
}

void fill_bf16_dot(CpuKernels& table) {
  table.matmul_bf16_bf16 = matmul<Bf16Tile<DotPairs>>;
  table.peak_bf16 = peak_bf16_dot;
}

}  // namespace espalier::kernels::avx512
#endif
