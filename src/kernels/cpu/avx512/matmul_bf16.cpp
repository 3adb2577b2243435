// bf16 x bf16 by the dot product that Zen 4, Sapphire Rapids and later have; compiled with -mavx512bf16.
#if defined(__x86_64__)
#define ESPALIER_ISA avx512
#include "kernels/cpu/avx512/simd.h"
#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/peak.h"

namespace espalier::kernels::avx512 {

// A type of this file only: were it the Bf16Tile of generic/matmul.h under another #if, the linker would choose one of
// two for both, also on processors without these instructions.
struct Bf16DotTile {
  static constexpr int kMaxRows = Simd::kFloatRows, kMaxPanels = Simd::kFloatPanels;

  template <int kRows, int kPanels>
  static void run(const MatmulTask& t, int panel, int row) {
    Tile<kRows, kPanels> tile;
    tile.clear();
    const std::uint16_t* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = TaskRows{t}.at<std::uint16_t>(row + r);
    const std::uint8_t* w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = t.panels + static_cast<std::size_t>(panel + p) * t.panel_bytes;
    for (std::int64_t k = 0; k < t.k; k += 2) {
      __m512bh pairs[kPanels];
      for (int p = 0; p < kPanels; ++p) pairs[p] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w[p]));
      for (int r = 0; r < kRows; ++r) {
        std::int32_t two;
        __builtin_memcpy(&two, x[r] + k, 4);
        __m512bh a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
        for (int p = 0; p < kPanels; ++p) tile.acc[r][p] = {_mm512_dpbf16_ps(tile.acc[r][p].v, pairs[p], a)};
      }
      for (auto& p : w) p += 64;
    }
    tile.finish(t, panel, row);
  }
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
  table.matmul_bf16_bf16 = matmul<Bf16DotTile>;
  table.peak_bf16 = peak_bf16_dot;
}

}  // namespace espalier::kernels::avx512
#endif
