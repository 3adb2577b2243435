// value_tiles.h: weights times values in tiles: A tiles are 16 queries' weights of 32 positions, B tiles the values of
// such positions, pairs of them interleaved; compiled with -mavx512bf16.
//
// An element's sum goes over positions in groups of 32 from a multiple of 32 of a block, in ascending order, as the
// instruction does (matmul_bf16.cpp); so such groups stay whole where a tile is masked.
#pragma once

#include "kernels/cpu/amx/simd.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/avx512/bf16_pairs.h"
#include "kernels/cpu/generic/attention/folds.h"

namespace espalier::kernels::amx {

inline constexpr int kGroup = 32;     // elements or positions of a tile
inline constexpr int kTileEdge = 16;  // rows of a tile, and its columns of 32 bits

// C tiles 0..3 = [first or second A][first or second B], A tiles 4 and 5 with so many rows in all, B tiles 6 and 7.
inline void shape_tiles(int rows) {
  const int first = rows < kTileEdge ? rows : kTileEdge, second = rows > kTileEdge ? rows - kTileEdge : 1;
  TileShapes shapes;
  for (int i = 0; i < 2; ++i) {
    shapes.set(i, first, 64);
    shapes.set(2 + i, second, 64);
    shapes.set(4 + i, i == 0 ? first : second, 64);
    shapes.set(6 + i, kTileEdge, 64);
  }
  shapes.load();
}

// What every arithmetic in tiles does with a block's values.
struct ValueTiles : PairWeights {
  static constexpr int kPairGroup = kGroup / 2;
  static constexpr bool kTiles = true;

  int value_width;                                                       // rounded up to 16
  alignas(64) std::uint32_t columns[2][kAttentionBlock / 2][kTileEdge];  // of 32 elements of a block's values
  alignas(64) float sums[2][2][kTileEdge][kTileEdge];

  void weigh_all(int queries, const std::byte* const* rows, const std::byte* const* ahead, int count, float* weighted) {
    const bool many = queries > kTileEdge;
    for (int d = 0; d < value_width; d += kGroup) {
      interleave(rows, ahead, count, d);
      each<4>([](auto tile) { clear_tile<tile>(); });
      for (int group = 0; group * kGroup < count; ++group) {
        load_tile<4>(p[0] + group * kTileEdge, sizeof p[0]);
        each<2>([&](auto c) { load_tile<6 + c>(columns[c][group * kTileEdge], sizeof columns[0][0]); });
        each<2>([](auto c) { multiply_bf16<c, 4, 6 + c>(); });
        if (!many) continue;
        load_tile<5>(p[kTileEdge] + group * kTileEdge, sizeof p[0]);
        each<2>([](auto c) { multiply_bf16<2 + c, 5, 6 + c>(); });
      }
      each<2, 2>([&](auto r, auto c) { store_tile<2 * r + c>(sums[r][c], sizeof sums[0][0][0]); });
      for (int i = 0; i < queries; ++i)
        write(weighted + i * value_width, d, _mm512_load_ps(sums[i / kTileEdge][0][i % kTileEdge]),
              _mm512_load_ps(sums[i / kTileEdge][1][i % kTileEdge]));
    }
  }

 private:
  // Elements [d, d + 32) of two positions each: columns[0]: elements 0-3, 8-11, ..; columns[1]: the rest. Behind the
  // last position zeros, as its weight is.
  void interleave(const std::byte* const* rows, const std::byte* const* ahead, int count, int d) {
    const bool whole = value_width - d >= kGroup;
    for (int i = 0; i < (count + kGroup - 1) / kGroup * kGroup; i += 2) {
      const __m512i first = stretch(i < count ? rows[i] : kNoValues, d, whole),
                    second = stretch(i + 1 < count ? rows[i + 1] : kNoValues, d, whole);
      if (i < count) call_in(ahead[i] + 2 * d);
      if (i + 1 < count) call_in(ahead[i + 1] + 2 * d);
      _mm512_store_si512(columns[0][i / 2], _mm512_unpacklo_epi16(first, second));
      _mm512_store_si512(columns[1][i / 2], _mm512_unpackhi_epi16(first, second));
    }
  }
  static __m512i stretch(const std::byte* row, int d, bool whole) {
    const auto* from = reinterpret_cast<const std::uint16_t*>(row) + d;
    if (whole) return _mm512_loadu_si512(from);
    return _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  void write(float* to, int d, __m512 low, __m512 high) const {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    _mm512_storeu_ps(to + d, _mm512_permutex2var_ps(low, first, high));
    if (value_width - d >= kGroup) _mm512_storeu_ps(to + d + 16, _mm512_permutex2var_ps(low, second, high));
  }
};

}  // namespace espalier::kernels::amx
