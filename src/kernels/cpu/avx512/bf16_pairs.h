// bf16_pairs.h: weights of attention as bf16, in pairs of positions, for dot products of such pairs
// (attention_bf16.cpp, amx/attention.cpp); compiled with -mavx512bf16. The sum of weights is that of the rounded ones.
#pragma once

#include "kernels/cpu/generic/attention/widening.h"

namespace espalier::kernels::ESPALIER_ISA {

inline __m512bh as_pairs(__m512i bits) {
  return reinterpret_cast<__m512bh>(bits);
}

// 2^x for x <= 0 to the twelve bits that survive rounding to bf16.
inline __m512 short_exp2(__m512 x) {
  x = _mm512_max_ps(x, _mm512_set1_ps(-200.0f));
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(x, whole);  // -0.5 .. 0.5
  __m512 r = _mm512_set1_ps(5.5826318e-2f);
  r = _mm512_fmadd_ps(r, f, _mm512_set1_ps(2.4022651e-1f));
  r = _mm512_fmadd_ps(r, f, _mm512_set1_ps(6.9314720e-1f));
  r = _mm512_fmadd_ps(r, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(r, whole);
}

// A tile's weights of one block of positions, in pairs.
struct PairWeights {
  alignas(64) std::uint32_t p[kTileQueries][kAttentionBlock / 2];  // pairs of positions

  template <int kN>
  void soften(int query, const float (*rows)[kAttentionBlock], const float* maximum, float* sum, int vectors) {
    const __m512bh ones = as_pairs(_mm512_set1_epi32(0x3f803f80));
    Simd::F total[kN];
    for (auto& t : total) t = Simd::zero();
    for (int i = 0; i < vectors; i += 2) {
#pragma GCC unroll 4
      for (int j = 0; j < kN; ++j) {
        const __m512 top = _mm512_set1_ps(maximum[j]);
        const __m512 low = short_exp2(_mm512_sub_ps(_mm512_loadu_ps(rows[j] + 16 * i), top));
        const __m512 high = short_exp2(_mm512_sub_ps(_mm512_loadu_ps(rows[j] + 16 * i + 16), top));
        const __m512bh pairs = _mm512_cvtne2ps_pbh(high, low);
        _mm512_storeu_si512(p[query + j] + 8 * i, reinterpret_cast<__m512i>(pairs));
        total[j].v = _mm512_dpbf16_ps(total[j].v, pairs, ones);
      }
    }
    reduce_add(total, sum);
  }

  // Moves the weights of these pairs to the front; of a position that is not seen it becomes 0.
  void gather_weights(int query, const WeighedPairs& pairs) {
    for (int i = 0; i < pairs.count; ++i) {
      const std::uint32_t first = (pairs.seen[i] & 1) != 0 ? 0xffffu : 0,
                          second = (pairs.seen[i] & 2) != 0 ? 0xffff0000u : 0;
      p[query][i] = p[query][pairs.pair[i]] & (first | second);
    }
  }
};

}  // namespace espalier::kernels::ESPALIER_ISA
