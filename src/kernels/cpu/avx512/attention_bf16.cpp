// Attention with dot products of bf16 pairs, for bf16 keys and values; compiled with -mavx512bf16.
//
// Scores: keys lie as pairs of elements already, a query's pairs are broadcast. Weighted values: two positions' rows
// are interleaved in registers into pairs; the order of elements within 32 is put right when a block's result is
// written. Queries and weights are rounded to bf16 (the sum of weights is that of the rounded ones).
#if defined(__x86_64__)
#define ESPALIER_ISA avx512
#include "kernels/cpu/avx512/simd.h"

#include "kernels/cpu/avx512/bf16_pairs.h"
#include "kernels/cpu/generic/attention.h"

namespace espalier::kernels::avx512 {
namespace {

struct Bf16Pairs : PairWeights {
  static constexpr int kRows = 6, kGroups = 4;  // 24 accumulators
  static constexpr int kPairGroup = 1;
  static constexpr bool kTiles = false;
  int key_width, value_width;                                  // rounded up to 16
  alignas(64) std::uint32_t q[kTileQueries * kMaxKeyDim / 2];  // pairs of elements

  void set_queries(const float* queries, int count, int keys, int values) {
    key_width = keys;
    value_width = values;
    auto* to = reinterpret_cast<std::uint16_t*>(q);
    for (int i = 0; i < count * keys; i += 16) Simd::store_bf16(to + i, Simd::load(queries + i));
  }

  template <int kQ, int kG, bool kAhead, bool kJoined>
  void scores(int query, const Group* groups, float* const* to, int stride) const {
    const int padded = key_width;
    __m512 acc[kQ][kG];
#pragma GCC unroll 8
    for (int i = 0; i < kQ; ++i) {
#pragma GCC unroll 8
      for (int g = 0; g < kG; ++g) acc[i][g] = _mm512_setzero_ps();
    }
    const std::uint32_t* from = q + query * (padded / 2);
    ValuesAhead<kG> ahead(groups, value_width * kSlotGroup * 2);
    for (int pair = 0; pair < padded / 2; ++pair) {
      if constexpr (kAhead) ahead.template call<64>();
      __m512i k[kG];
#pragma GCC unroll 8
      for (int g = 0; g < kG; ++g) {
        const std::byte* at = groups[g].keys + pair * 64;
        k[g] = _mm512_loadu_si512(at);
        if constexpr (kJoined)
          k[g] = _mm512_mask_loadu_epi32(k[g], Simd::lanes_from(groups[g].split).bits, groups[g].rest + pair * 64);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kQ; ++i) {
        const __m512i a = _mm512_set1_epi32(static_cast<int>(from[i * (padded / 2) + pair]));
#pragma GCC unroll 8
        for (int g = 0; g < kG; ++g) acc[i][g] = _mm512_dpbf16_ps(acc[i][g], as_pairs(k[g]), as_pairs(a));
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kQ; ++i) {
#pragma GCC unroll 8
      for (int g = 0; g < kG; ++g) _mm512_storeu_ps(to[g] + i * stride, acc[i][g]);
    }
  }

  // 32 elements of kC such stretches of two positions become vectors of pairs (low: elements 0-3, 8-11, ..; high: the
  // rest).
  template <int kQ, int kC, bool kAhead>
  void weigh_tile(int query, int d, const std::byte* const* rows, const std::byte* const* ahead, int count,
                  float* weighted) const {
    __m512 low[kQ][kC], high[kQ][kC];
#pragma GCC unroll 8
    for (int j = 0; j < kQ; ++j) {
#pragma GCC unroll 8
      for (int c = 0; c < kC; ++c) low[j][c] = high[j][c] = _mm512_setzero_ps();
    }
    for (int i = 0; i < count; i += 2) {
#pragma GCC unroll 8
      for (int c = 0; c < kC; ++c) {
        const __m512i first = stretch(rows[i], d + 32 * c), second = stretch(rows[i + 1], d + 32 * c);
        if constexpr (kAhead) {
          call_in(ahead[i] + 2 * (d + 32 * c));
          call_in(ahead[i + 1] + 2 * (d + 32 * c));
        }
        const __m512bh even = as_pairs(_mm512_unpacklo_epi16(first, second));
        const __m512bh odd = as_pairs(_mm512_unpackhi_epi16(first, second));
#pragma GCC unroll 8
        for (int j = 0; j < kQ; ++j) {
          const __m512bh w = as_pairs(_mm512_set1_epi32(static_cast<int>(p[query + j][i / 2])));
          low[j][c] = _mm512_dpbf16_ps(low[j][c], even, w);
          high[j][c] = _mm512_dpbf16_ps(high[j][c], odd, w);
        }
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < kQ; ++j) {
#pragma GCC unroll 8
      for (int c = 0; c < kC; ++c) write(weighted + (query + j) * value_width, d + 32 * c, low[j][c], high[j][c]);
    }
  }
  template <int kQ, bool kAhead>
  void weigh(int query, const std::byte* const* rows, const std::byte* const* ahead, int count, float* weighted) const {
    int d = 0;
    for (; d + 64 <= value_width; d += 64) weigh_tile<kQ, 2, kAhead>(query, d, rows, ahead, count, weighted);
    for (; d < value_width; d += 32) weigh_tile<kQ, 1, kAhead>(query, d, rows, ahead, count, weighted);
  }

 private:
  // 32 values of a row, fewer where it ends.
  __m512i stretch(const std::byte* row, int d) const {
    const auto* from = reinterpret_cast<const std::uint16_t*>(row) + d;
    if (value_width - d >= 32) return _mm512_loadu_si512(from);
    return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  void write(float* to, int d, __m512 low, __m512 high) const {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    _mm512_storeu_ps(to + d, _mm512_permutex2var_ps(low, first, high));
    if (value_width - d >= 32) _mm512_storeu_ps(to + d + 16, _mm512_permutex2var_ps(low, second, high));
  }
};

// Latent rows: lane = query; a row's pairs of elements are broadcast.
struct LatentPairs : Bf16Pairs {
  static constexpr int kLatentRows = Simd::kTileRows;

  // q: [pair of elements][query][2]
  void turn_queries(const float* queries, int count, int keys, int values) {
    key_width = keys;
    value_width = values;
    alignas(64) std::uint32_t pairs[kMaxKeyDim / 2];
    for (int i = 0; i < kTileQueries; ++i) {
      auto* to = reinterpret_cast<std::uint16_t*>(pairs);
      for (int d = 0; d < keys; d += 16)
        Simd::store_bf16(to + d, i < count ? Simd::load(queries + i * keys + d) : Simd::zero());
      for (int pair = 0; pair < keys / 2; ++pair) q[pair * kTileQueries + i] = pairs[pair];
    }
  }

  template <int kV>
  void row_scores(const std::byte* const* rows, float (*out)[kTileQueries]) const {
    __m512 acc[kLatentRows][kV];
#pragma GCC unroll 8
    for (int r = 0; r < kLatentRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kV; ++v) acc[r][v] = _mm512_setzero_ps();
    }
    const std::uint32_t* from = q;
    for (int pair = 0; pair < key_width / 2; ++pair, from += kTileQueries) {
      __m512i queries[kV];
#pragma GCC unroll 8
      for (int v = 0; v < kV; ++v) queries[v] = _mm512_loadu_si512(from + 16 * v);
#pragma GCC unroll 8
      for (int r = 0; r < kLatentRows; ++r) {
        std::int32_t two;
        __builtin_memcpy(&two, rows[r] + 4 * pair, sizeof two);
        const __m512bh k = as_pairs(_mm512_set1_epi32(two));
#pragma GCC unroll 8
        for (int v = 0; v < kV; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], k, as_pairs(queries[v]));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kLatentRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kV; ++v) _mm512_storeu_ps(out[r] + 16 * v, acc[r][v]);
    }
  }
};

void attend_bf16(const AttentionTask& t) {
  attend_with<Blocks<KvType::bf16, Bf16Pairs>>(t);
}
void attend_latent_bf16(const AttentionTask& t) {
  attend_with<LatentBlocks<KvType::bf16, LatentPairs>>(t);
}

void index_scores_bf16(const IndexTask& t) {
  index_with<Blocks<KvType::bf16, Bf16Pairs>>(t);
}

}  // namespace

void fill_attention_bf16(CpuKernels& table) {
  table.attend_bf16 = attend_bf16;
  table.attend_latent_bf16 = attend_latent_bf16;
  table.index_scores_bf16 = index_scores_bf16;
}

}  // namespace espalier::kernels::avx512
#endif
