// Attention over latent rows of bf16 in tiles: 32 queries at a time; compiled with -mavx512bf16.
//
// Scores: A tiles are 16 rows as they lie, B tiles the queries' pairs of elements, C [row][query]. Weighted values: A
// tiles are 16 queries' weights of 32 positions, B tiles the values of such positions, pairs of them interleaved. An
// element's sum goes in groups of 32 (elements of a key; positions from a multiple of 32 of a block), in ascending
// order, as the instruction does (matmul_bf16.cpp), so groups of positions stay whole where a tile is masked.
#if defined(__x86_64__)
#define ESPALIER_ISA amx
#include "kernels/cpu/amx/simd.h"

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/avx512/bf16_pairs.h"
#include "kernels/cpu/generic/attention/folds.h"
#include "kernels/cpu/generic/attention/latent.h"

namespace espalier::kernels::amx {
namespace {

constexpr int kGroup = 32;     // elements or positions of a tile
constexpr int kTileEdge = 16;  // rows of a tile, and its columns of 32 bits

// Sixteen registers of sixteen 32-bit elements become their columns.
void turn(__m512i (&r)[16]) {
  __m512i a[16], b[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i even = _mm512_shuffle_i32x4(b[i], b[4 + i], 0x88), odd = _mm512_shuffle_i32x4(b[i], b[4 + i], 0xdd);
    const __m512i even2 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0x88),
                  odd2 = _mm512_shuffle_i32x4(b[8 + i], b[12 + i], 0xdd);
    r[i] = _mm512_shuffle_i32x4(even, even2, 0x88);
    r[4 + i] = _mm512_shuffle_i32x4(odd, odd2, 0x88);
    r[8 + i] = _mm512_shuffle_i32x4(even, even2, 0xdd);
    r[12 + i] = _mm512_shuffle_i32x4(odd, odd2, 0xdd);
  }
}

// C tiles 0..3 = [first or second A][first or second B], A tiles 4 and 5, B tiles 6 and 7.
void shape_tiles() {
  TileShapes shapes;
  for (int tile = 0; tile < 8; ++tile) shapes.set(tile, kTileEdge, 64);
  shapes.load();
}

struct LatentTiles : PairWeights {
  static constexpr int kLatentRows = 32;  // two A tiles
  static constexpr int kPairGroup = kGroup / 2;
  static constexpr bool kTiles = true;
  static constexpr int kMostWidth = (kMaxKeyDim + kGroup - 1) / kGroup * kGroup;

  int key_width, value_width;                                            // rounded up to 16
  alignas(64) std::uint32_t q[kMostWidth / 2][kTileQueries];             // [pair of elements][query]
  alignas(64) std::uint16_t aside[2][kTileEdge][kMostWidth];             // rows that do not lie behind one another
  alignas(64) std::uint32_t columns[2][kAttentionBlock / 2][kTileEdge];  // of 32 elements of a block's values
  alignas(64) float sums[2][2][kTileEdge][kTileEdge];

  int key_groups() const { return (key_width + kGroup - 1) / kGroup; }

  void turn_queries(const float* queries, int count, int keys, int values) {
    key_width = keys;
    value_width = values;
    for (int first = 0; first < kTileQueries; first += kTileEdge)
      for (int d = 0; d < key_groups() * kGroup; d += kGroup) {
        __m512i rows[kTileEdge];
        for (int i = 0; i < kTileEdge; ++i) {
          const float* from = queries + (first + i) * keys + d;
          const bool there = first + i < count;
          const __m512 low = there ? _mm512_loadu_ps(from) : _mm512_setzero_ps(),
                       high = there && d + 16 < keys ? _mm512_loadu_ps(from + 16) : _mm512_setzero_ps();
          rows[i] = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
        }
        turn(rows);
        for (int i = 0; i < kTileEdge; ++i) _mm512_store_si512(q[d / 2 + i] + first, rows[i]);
      }
  }

  // Sixteen rows for A tiles: as they lie where one follows another and they are whole groups, else a copy.
  struct TileRows {
    const void* first;
    std::size_t stride;
  };
  TileRows tile_rows(const std::byte* const* rows, std::uint16_t (*copy)[kMostWidth]) const {
    const std::ptrdiff_t stride = 2 * key_width;
    bool as_they_lie = key_width % kGroup == 0;
    for (int r = 1; r < kTileEdge; ++r) as_they_lie &= rows[r] - rows[r - 1] == stride;
    if (as_they_lie) return {rows[0], static_cast<std::size_t>(stride)};
    for (int r = 0; r < kTileEdge; ++r) {
      __builtin_memcpy(copy[r], rows[r], static_cast<std::size_t>(stride));
      __builtin_memset(copy[r] + key_width, 0, static_cast<std::size_t>(key_groups() * kGroup - key_width) * 2);
    }
    return {copy, sizeof copy[0]};
  }

  template <int kV>
  void row_scores(const std::byte* const* rows, float (*out)[kTileQueries]) {
    const TileRows first = tile_rows(rows, aside[0]), second = tile_rows(rows + kTileEdge, aside[1]);
    each<2, kV>([](auto r, auto v) { clear_tile<2 * r + v>(); });
    for (int group = 0; group < key_groups(); ++group) {
      load_tile<4>(static_cast<const std::byte*>(first.first) + 64 * group, first.stride);
      load_tile<5>(static_cast<const std::byte*>(second.first) + 64 * group, second.stride);
      each<kV>([&](auto v) { load_tile<6 + v>(q[group * kTileEdge] + kTileEdge * v, sizeof q[0]); });
      each<2, kV>([](auto r, auto v) { multiply_bf16<2 * r + v, 4 + r, 6 + v>(); });
    }
    each<2, kV>([&](auto r, auto v) { store_tile<2 * r + v>(out[kTileEdge * r] + kTileEdge * v, sizeof out[0]); });
  }

  void put(const float (*found)[kTileQueries], const int* positions, int queries,
           float (*scores)[kAttentionBlock]) const {
    for (int r = 0; r < kLatentRows; r += kTileEdge) {
      const int* at = positions + r;
      // Positions ascend, but for the last one, which may stand there more than once.
      if (at[kTileEdge - 1] - at[0] != kTileEdge - 1 || at[kTileEdge - 1] == at[kTileEdge - 2]) {
        put_scores(found + r, at, kTileEdge, queries, scores);
        continue;
      }
      for (int query = 0; query < queries; query += kTileEdge) {
        __m512i some[kTileEdge];
        for (int i = 0; i < kTileEdge; ++i) some[i] = _mm512_load_si512(found[r + i] + query);
        turn(some);
        for (int i = 0; i < kTileEdge && query + i < queries; ++i)
          _mm512_storeu_si512(scores[query + i] + at[0], some[i]);
      }
    }
  }

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

void attend_latent_bf16(const AttentionTask& t) {
  shape_tiles();
  attend_with<LatentBlocks<KvType::bf16, LatentTiles>>(t);
  release_tiles();
}

}  // namespace

void fill_attention(CpuKernels& table) {
  table.attend_latent_bf16 = attend_latent_bf16;
}

}  // namespace espalier::kernels::amx
#endif
