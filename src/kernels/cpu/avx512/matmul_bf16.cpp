// bf16 x bf16 by the dot product that Zen 4, Sapphire Rapids and later have; compiled with -mavx512bf16.
#if defined(__x86_64__)
#define ESPALIER_ISA avx512
#include "kernels/cpu/avx512/simd.h"
#include "kernels/cpu/generic/matmul.h"
#include "kernels/cpu/generic/peak.h"

namespace espalier::kernels::avx512 {

// Both sides bf16, pairs along K, rows padded with zeros. A type of this file only: under a name that another file uses
// too, the linker could choose this one for processors without these instructions.
struct Bf16Tile : WithoutRest {
  static constexpr int kMaxRows = Simd::kHalfRows, kRowsTogether = 1;
  // One row reads panel behind panel: a single stream (integer_tile.h).
  static constexpr int panels(int rows) { return rows == 1 ? 1 : Simd::half_panels(rows); }
  static constexpr std::int64_t offset(std::int64_t k) { return 32 * k; }
  using Unpacked = void;

  static __m512bh spread(const std::uint16_t* x) {
    std::int32_t two;
    __builtin_memcpy(&two, x, 4);
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
  }

  template <int kRows, int kPanels>
  [[gnu::always_inline]] static void add(Tile<kRows, kPanels>& tile, const MatmulTask& t, int row,
                                         const PanelPart<kPanels>& part) {
    const std::uint16_t* x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = TaskRows{t}.at<std::uint16_t>(row + r);
    const std::uint8_t* w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = part.at[p];
    CallAhead<kPanels> ahead(part.coming, (part.end - part.begin + 1) / 2);
    for (std::int64_t k = part.begin; k < part.end; k += 2) {
      ahead.step();
      __m512bh weights[kPanels];
      each<kPanels>([&](auto p) {
        weights[p] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w[p]));
        w[p] += 64;
      });
      each<kRows>([&](auto r) {
        const __m512bh two = spread(x[r] + k);
        each<kPanels>([&](auto p) { tile.acc[r][p].v = _mm512_dpbf16_ps(tile.acc[r][p].v, weights[p], two); });
      });
    }
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
  table.matmul_bf16_bf16 = matmul<Bf16Tile>;
  table.peak_bf16 = peak_bf16_dot;
}

}  // namespace espalier::kernels::avx512
#endif
