// latent_tiles.h: scores of latent rows in tiles: A tiles are 16 rows as they lie, B tiles the queries' pairs of
// elements, C [row][query]; compiled with -mavx512bf16.
//
// An element's sum goes over the key's elements in groups of 32, in ascending order, as the instruction does
// (matmul_bf16.cpp).
#pragma once

#include "kernels/cpu/amx/value_tiles.h"
#include "kernels/cpu/generic/attention/latent.h"

namespace espalier::kernels::amx {

// Sixteen registers of sixteen 32-bit elements become their columns.
inline void turn(__m512i (&r)[16]) {
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

// Latent rows: 32 rows against 16 or 32 queries, a query in each column.
struct LatentTiles : ValueTiles {
  static constexpr int kLatentRows = 32;  // two A tiles
  static constexpr int kMostWidth = (kMaxKeyDim + kGroup - 1) / kGroup * kGroup;

  int key_width;                                              // rounded up to 16
  alignas(64) std::uint32_t q[kMostWidth / 2][kTileQueries];  // [pair of elements][query]
  alignas(64) std::uint16_t aside[2][kTileEdge][kMostWidth];  // rows that do not lie behind one another

  int key_groups() const { return (key_width + kGroup - 1) / kGroup; }

  void turn_queries(const float* queries, int count, int keys, int values) {
    key_width = keys;
    value_width = values;
    shape_tiles(kTileQueries);
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
};

}  // namespace espalier::kernels::amx
