// simd.h (AVX2 + FMA + F16C): sixteen lanes are two registers. See ../generic/README.md for the contract.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace espalier::kernels::avx2 {

// Sixteen lanes in AVX2.
struct Simd {
  static constexpr int kInt8Rows = 3, kInt8Panels = 1;  // sixteen registers: 6 integer accumulators
  static constexpr int kFloatRows = 3, kHalfRows = 4;   // of the float micro-kernels' tiles; weights of 16 bits
  static constexpr int float_panels(int rows) { return rows == 1 ? 4 : 2; }                 // up to 12 accumulators
  static constexpr int half_panels(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }  // 8, some to widen
  static constexpr int kTileRows = 4, kScoreGroups = 1, kValueVectors = 1;                  // attention: 8 accumulators
  static constexpr int kStateVectors = 1;  // columns of a recurrent state that go together, in sixteens
  static constexpr bool kAskAhead = true;  // whether it asks memory for what follows (generic/tile.h)
  static constexpr int kPeakChains = 5;    // independent accumulators that fit the registers
  static constexpr bool kPairSums = true, kCentredDot = true;

  struct F {
    __m256 v[2];
  };
  struct I {
    __m256i v[2];
  };
  struct B {
    __m256i v[2];
  };
  struct S {  // signed codes, and their sizes
    __m256i code[2], size[2];
  };
  struct P {
    __m256i v[2];
  };
  struct A {
    __m256i bytes;
  };
  struct Lanes {
    __m256 v[2];
  };

  template <class T, class Op>
  static inline T map(Op op) {
    return {{op(0), op(1)}};
  }

  static inline F zero() { return set1(0.0f); }
  static inline F set1(float x) { return {{_mm256_set1_ps(x), _mm256_set1_ps(x)}}; }
  static inline F load(const float* p) { return {{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}}; }
  static inline void store(float* p, F x) {
    _mm256_storeu_ps(p, x.v[0]);
    _mm256_storeu_ps(p + 8, x.v[1]);
  }
  static inline F load_n(const float* p, int n) {
    return {{_mm256_maskload_ps(p, low(n)), n > 8 ? _mm256_maskload_ps(p + 8, low(n - 8)) : _mm256_setzero_ps()}};
  }
  static inline void store_n(float* p, F x, int n) {
    _mm256_maskstore_ps(p, low(n), x.v[0]);
    if (n > 8) _mm256_maskstore_ps(p + 8, low(n - 8), x.v[1]);
  }
  static inline F add(F a, F b) { return {{_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}}; }
  static inline F sub(F a, F b) { return {{_mm256_sub_ps(a.v[0], b.v[0]), _mm256_sub_ps(a.v[1], b.v[1])}}; }
  static inline F mul(F a, F b) { return {{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}}; }
  static inline F div(F a, F b) { return {{_mm256_div_ps(a.v[0], b.v[0]), _mm256_div_ps(a.v[1], b.v[1])}}; }
  static inline F fma(F a, F b, F c) {
    return {{_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
  }
  static inline F max(F a, F b) { return {{_mm256_max_ps(a.v[0], b.v[0]), _mm256_max_ps(a.v[1], b.v[1])}}; }
  static inline F min(F a, F b) { return {{_mm256_min_ps(a.v[0], b.v[0]), _mm256_min_ps(a.v[1], b.v[1])}}; }
  static inline F sqrt(F a) { return {{_mm256_sqrt_ps(a.v[0]), _mm256_sqrt_ps(a.v[1])}}; }
  static inline F abs(F a) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return {{_mm256_andnot_ps(sign, a.v[0]), _mm256_andnot_ps(sign, a.v[1])}};
  }
  static inline F round(F a) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {{_mm256_round_ps(a.v[0], kNearest), _mm256_round_ps(a.v[1], kNearest)}};
  }
  static constexpr float kLeastPower = -127.0f, kMostPower = 127.0f;
  // a * 2^n for integral n from kLeastPower, for which it is 0, to kMostPower.
  static inline F scale_by_power(F a, F n) {
    F out;
    for (int h = 0; h < 2; ++h) out.v[h] = _mm256_mul_ps(a.v[h], power(_mm256_cvtps_epi32(n.v[h])));
    return out;
  }
  static inline F swap_pairs(F a) { return {{_mm256_permute_ps(a.v[0], 0xb1), _mm256_permute_ps(a.v[1], 0xb1)}}; }
  static inline F load_twice(const float* p) {  // 8 floats, each in two neighbouring lanes
    const __m256i low = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3), high = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
    const __m256 eight = _mm256_loadu_ps(p);
    return {{_mm256_permutevar8x32_ps(eight, low), _mm256_permutevar8x32_ps(eight, high)}};
  }
  static inline float reduce_add(F a) {
    __m256 both = _mm256_add_ps(a.v[0], a.v[1]);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static inline float reduce_max(F a) {
    __m256 both = _mm256_max_ps(a.v[0], a.v[1]);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static inline void reduce_add4(const F (&a)[4], float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_add(a[i]);
  }
  static inline void reduce_max4(const F (&a)[4], float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_max(a[i]);
  }

  static inline F load_f16(const std::uint16_t* p) {
    return {{_mm256_cvtph_ps(_mm_loadu_si128(as128(p))), _mm256_cvtph_ps(_mm_loadu_si128(as128(p + 8)))}};
  }
  static inline void store_f16(std::uint16_t* p, F x) {
    _mm_storeu_si128(as128(p), _mm256_cvtps_ph(x.v[0], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128(as128(p + 8), _mm256_cvtps_ph(x.v[1], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static inline F load_bf16(const std::uint16_t* p) {  // the even elements, then the odd ones
    F out;
    __m256i both = _mm256_loadu_si256(as256(p));
    out.v[0] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    out.v[1] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
    return out;
  }
  static inline Lanes lanes_from(int n) {
    alignas(32) static constexpr std::int32_t kFrom[32] = {
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const auto* from = reinterpret_cast<const float*>(kFrom) + 16 - n;
    return {{_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}};
  }
  static inline Lanes greater(F a, F b) {
    return {{_mm256_cmp_ps(a.v[0], b.v[0], _CMP_GT_OQ), _mm256_cmp_ps(a.v[1], b.v[1], _CMP_GT_OQ)}};
  }
  static inline F select(Lanes where, F yes, F no) {
    return {{_mm256_blendv_ps(no.v[0], yes.v[0], where.v[0]), _mm256_blendv_ps(no.v[1], yes.v[1], where.v[1])}};
  }
  static inline F bf16_in_order(F a) {
    const __m256 low = _mm256_unpacklo_ps(a.v[0], a.v[1]), high = _mm256_unpackhi_ps(a.v[0], a.v[1]);
    return {{_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)}};
  }
  static inline F load_bf16_even(const std::uint16_t* p) {
    return map<F>(
        [&](int h) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(as256(p + 16 * h)), 16)); });
  }
  static inline F load_bf16_odd(const std::uint16_t* p) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return map<F>(
        [&](int h) { return _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(as256(p + 16 * h)), upper)); });
  }
  static inline void store_bf16(std::uint16_t* p, F x) {  // ties to even, as tensor/dtype.h rounds
    for (int h = 0; h < 2; ++h) {
      __m256i bits = _mm256_castps_si256(x.v[h]);
      __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
      __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
      __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x.v[h], x.v[h], _CMP_UNORD_Q));
      __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
      __m256i rounded = _mm256_srli_epi32(_mm256_blendv_epi8(sum, quiet, nan), 16);
      __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded, rounded), 0x08);
      _mm_storeu_si128(as128(p + 8 * h), _mm256_castsi256_si128(packed));
    }
  }
  static inline F load_u8(const std::uint8_t* p) {
    __m128i bytes = _mm_loadu_si128(as128(p));
    return {{_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
             _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))}};
  }
  static inline F load_i8(const std::int8_t* p) {
    __m128i bytes = _mm_loadu_si128(as128(p));
    return {{_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
             _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))}};
  }
  static inline F load_e4m3(
      const std::uint8_t* p) {  // exponent and mantissa moved into place, bias 7 made 127 by a factor
    F out;
    for (int h = 0; h < 2; ++h) {
      __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(as128(p + 8 * h)));
      __m256i magnitude = _mm256_slli_epi32(_mm256_and_si256(bytes, _mm256_set1_epi32(0x7f)), 20);
      __m256i sign = _mm256_slli_epi32(_mm256_and_si256(bytes, _mm256_set1_epi32(0x80)), 24);
      out.v[h] = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_or_si256(magnitude, sign)), _mm256_set1_ps(0x1p120f));
    }
    return out;
  }
  static inline F load_e5m2(const std::uint8_t* p) {  // the upper byte of an f16
    F out;
    for (int h = 0; h < 2; ++h)
      out.v[h] = _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64(as128(p + 8 * h))), 8));
    return out;
  }
  static inline void store_i8(std::int8_t* p, F x) {
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.v[0]), _mm256_cvtps_epi32(x.v[1]));  // 0-3 8-11 4-7 12-15
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(as128(p), bytes);
  }

  static inline I iset1(std::int32_t x) { return {{_mm256_set1_epi32(x), _mm256_set1_epi32(x)}}; }
  static inline F to_float(I a) { return {{_mm256_cvtepi32_ps(a.v[0]), _mm256_cvtepi32_ps(a.v[1])}}; }

  static inline B bload(const std::uint8_t* p) {
    return {{_mm256_loadu_si256(as256(p)), _mm256_loadu_si256(as256(p + 32))}};
  }
  static inline void bstore(std::uint8_t* p, B a) {
    _mm256_storeu_si256(as256(p), a.v[0]);
    _mm256_storeu_si256(as256(p + 32), a.v[1]);
  }
  static inline B bset1(std::uint8_t x) {
    return {{_mm256_set1_epi8(static_cast<char>(x)), _mm256_set1_epi8(static_cast<char>(x))}};
  }
  static inline B band(B a, B b) { return {{_mm256_and_si256(a.v[0], b.v[0]), _mm256_and_si256(a.v[1], b.v[1])}}; }
  static inline B bor(B a, B b) { return {{_mm256_or_si256(a.v[0], b.v[0]), _mm256_or_si256(a.v[1], b.v[1])}}; }
  static inline B shift_right(B a, int n) {
    __m128i count = _mm_cvtsi32_si128(n);
    return {{_mm256_srl_epi32(a.v[0], count), _mm256_srl_epi32(a.v[1], count)}};
  }
  static inline B shift_left(B a, int n) {
    __m128i count = _mm_cvtsi32_si128(n);
    return {{_mm256_sll_epi32(a.v[0], count), _mm256_sll_epi32(a.v[1], count)}};
  }
  static inline B lookup(B nibbles, const std::uint8_t* table16) {
    __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128(as128(table16)));
    return {{_mm256_shuffle_epi8(table, nibbles.v[0]), _mm256_shuffle_epi8(table, nibbles.v[1])}};
  }
  static inline F lookup_floats(B places, const float* table16) {  // by the lowest four bits of each 32-bit lane
    const __m256 low = _mm256_loadu_ps(table16), high = _mm256_loadu_ps(table16 + 8);
    F out;
    for (int h = 0; h < 2; ++h)  // a permutation looks at three bits; the fourth, moved to the sign, chooses
      out.v[h] =
          _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, places.v[h]), _mm256_permutevar8x32_ps(high, places.v[h]),
                           _mm256_castsi256_ps(_mm256_slli_epi32(places.v[h], 28)));
    return out;
  }
  static inline F as_floats(B a) { return {{_mm256_castsi256_ps(a.v[0]), _mm256_castsi256_ps(a.v[1])}}; }
  static inline F byte_to_float(B a, int index) {
    F out;
    for (int h = 0; h < 2; ++h) {
      __m256i lane = _mm256_srl_epi32(a.v[h], _mm_cvtsi32_si128(8 * index));
      out.v[h] = _mm256_cvtepi32_ps(_mm256_and_si256(lane, _mm256_set1_epi32(255)));
    }
    return out;
  }

  static inline A aload(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return {_mm256_set1_epi32(four)};
  }
  // Weights below 128: pairs of products fit 16 bits (2 * 127 * 127 < 32768). Others: widen, since the byte multiply
  // would saturate.
  template <bool kSmall>
  static inline I dot4(I acc, B w, A a) {
    I out;
    for (int h = 0; h < 2; ++h) {
      if constexpr (kSmall) {
        __m256i pairs = _mm256_maddubs_epi16(w.v[h], a.bytes);
        out.v[h] = _mm256_add_epi32(acc.v[h], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      } else {
        __m256i even = _mm256_madd_epi16(_mm256_and_si256(w.v[h], _mm256_set1_epi16(255)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(a.bytes, 8), 8));
        __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(w.v[h], 8), _mm256_srai_epi16(a.bytes, 8));
        out.v[h] = _mm256_add_epi32(acc.v[h], _mm256_add_epi32(even, odd));
      }
    }
    return out;
  }

  // Two products in each of 16 bits, for codes so small that the sums fit (generic/matmul.h).
  static inline P dot_pairs(P acc, B w, A a) {
    P out = {{_mm256_add_epi16(acc.v[0], _mm256_maddubs_epi16(w.v[0], a.bytes)),
              _mm256_add_epi16(acc.v[1], _mm256_maddubs_epi16(w.v[1], a.bytes))}};
    keep(out);  // else GCC computes many products before it adds any, and spills them
    return out;
  }
  static inline I add_pairs(I acc, P pairs) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {{_mm256_add_epi32(acc.v[0], _mm256_madd_epi16(pairs.v[0], ones)),
             _mm256_add_epi32(acc.v[1], _mm256_madd_epi16(pairs.v[1], ones))}};
  }
  static inline S centre(B codes) {  // codes - 128
    S out;
    for (int h = 0; h < 2; ++h) {
      out.code[h] = _mm256_xor_si256(codes.v[h], _mm256_set1_epi8(-128));
      out.size[h] = _mm256_abs_epi8(out.code[h]);
    }
    return out;
  }
  static inline S sload(const std::uint8_t* p) {
    return {{_mm256_loadu_si256(as256(p)), _mm256_loadu_si256(as256(p + 32))},
            {_mm256_loadu_si256(as256(p + 64)), _mm256_loadu_si256(as256(p + 96))}};
  }
  static inline void bstore(std::uint8_t* p, const S& a) {
    for (int h = 0; h < 2; ++h) {
      _mm256_storeu_si256(as256(p + 32 * h), a.code[h]);
      _mm256_storeu_si256(as256(p + 64 + 32 * h), a.size[h]);
    }
  }
  // For a above -128: 2 * 128 * 127 fits 16 bits.
  static inline I dot4_centred(I acc, const S& w, A a) {
    I out;
    for (int h = 0; h < 2; ++h) {
      const __m256i pairs = _mm256_maddubs_epi16(w.size[h], _mm256_sign_epi8(a.bytes, w.code[h]));
      out.v[h] = _mm256_add_epi32(acc.v[h], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    keep(out);
    return out;
  }

  // Keeps a value in its registers and the optimiser away from it (measuring loops).
  template <class V>
  static inline void keep(V& a) {
    asm volatile("" : "+x"(a.v[0]), "+x"(a.v[1]));
  }

 private:
  static inline __m256i low(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static inline __m256 power(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  static inline const __m128i* as128(const void* p) { return static_cast<const __m128i*>(p); }
  static inline __m128i* as128(void* p) { return static_cast<__m128i*>(p); }
  static inline const __m256i* as256(const void* p) { return static_cast<const __m256i*>(p); }
  static inline __m256i* as256(void* p) { return static_cast<__m256i*>(p); }
};

}  // namespace espalier::kernels::avx2
