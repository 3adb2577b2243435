// simd.h (AVX-512 F/BW/DQ/VL + VNNI): sixteen lanes are one register. See ../generic/README.md for the contract.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace espalier::kernels::avx512 {

// Sixteen lanes in AVX-512.
struct Simd {
  static constexpr int kInt8Rows = 6, kInt8Panels = 2;  // tile of the int8 micro-kernel: 24 accumulators
  static constexpr int kFloatRows = 6, kHalfRows = 6;   // of the float micro-kernels' tiles; weights of 16 bits
  static constexpr int float_panels(int) { return 4; }  // 24 accumulators
  static constexpr int half_panels(int) { return 4; }
  static constexpr int kTileRows = 8, kScoreGroups = 2, kValueVectors = 2;  // attention: 16 accumulators
  static constexpr int kStateVectors = 4;   // columns of a recurrent state that go together, in sixteens
  static constexpr bool kAskAhead = false;  // whether it asks memory for what follows (generic/tile.h)
  static constexpr int kPeakChains = 12;    // independent accumulators that fit the registers
  static constexpr bool kPairSums = false, kCentredDot = false;

  struct F {
    __m512 v;
  };
  struct I {
    __m512i v;
  };
  struct B {
    __m512i v;
  };  // 64 bytes: 16 lanes of 4
  struct P {};  // no 16-bit sums
  struct A {
    __m512i v;
  };  // one group of 4 activations, in every lane

  struct Lanes {
    __mmask16 bits;
  };

  static inline F zero() { return {_mm512_setzero_ps()}; }
  static inline F set1(float x) { return {_mm512_set1_ps(x)}; }
  static inline F load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static inline void store(float* p, F x) { _mm512_storeu_ps(p, x.v); }
  static inline F load_n(const float* p, int n) { return {_mm512_maskz_loadu_ps(low(n), p)}; }
  static inline void store_n(float* p, F x, int n) { _mm512_mask_storeu_ps(p, low(n), x.v); }
  static inline Lanes lanes_from(int n) { return {static_cast<__mmask16>(0xffffu << n)}; }
  static inline Lanes greater(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
  static inline F select(Lanes where, F yes, F no) { return {_mm512_mask_mov_ps(no.v, where.bits, yes.v)}; }
  static inline F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
  static inline F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static inline F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static inline F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
  static inline F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static inline F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
  static inline F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
  static inline F sqrt(F a) { return {_mm512_sqrt_ps(a.v)}; }
  static inline F abs(F a) { return {_mm512_abs_ps(a.v)}; }
  static inline F round(F a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
  static constexpr float kLeastPower = -200.0f, kMostPower = 127.99f;
  static inline F scale_by_power(F a, F n) { return {_mm512_scalef_ps(a.v, n.v)}; }  // a * 2^n, n integral
  static inline F swap_pairs(F a) { return {_mm512_permute_ps(a.v, 0xb1)}; }
  static inline F load_twice(const float* p) {  // 8 floats, each in two neighbouring lanes
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return {_mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(p)))};
  }
  static inline float reduce_add(F a) { return _mm512_reduce_add_ps(a.v); }
  static inline float reduce_max(F a) { return _mm512_reduce_max_ps(a.v); }
  // Four registers at once, each by the tree of halves that reduces one.
  template <class Join>
  static inline __m128 reduce4(const F (&a)[4], Join join) {
    const __m512 ab = join(_mm512_shuffle_f32x4(a[0].v, a[1].v, 0x44), _mm512_shuffle_f32x4(a[0].v, a[1].v, 0xee));
    const __m512 cd = join(_mm512_shuffle_f32x4(a[2].v, a[3].v, 0x44), _mm512_shuffle_f32x4(a[2].v, a[3].v, 0xee));
    __m512 each = join(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    each = join(each, _mm512_permute_ps(each, 0x4e));
    each = join(each, _mm512_permute_ps(each, 0xb1));  // lane i of 128 bits: a[i]
    return _mm512_castps512_ps128(
        _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), each));
  }
  static inline void reduce_add4(const F (&a)[4], float* out) {
    _mm_storeu_ps(out, reduce4(a, [](__m512 x, __m512 y) { return _mm512_add_ps(x, y); }));
  }
  static inline void reduce_max4(const F (&a)[4], float* out) {
    _mm_storeu_ps(out, reduce4(a, [](__m512 x, __m512 y) { return _mm512_max_ps(x, y); }));
  }

  static inline F load_f16(const std::uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(as256(p)))}; }
  static inline void store_f16(std::uint16_t* p, F x) {
    _mm256_storeu_si256(as256(p), _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static inline F load_bf16(const std::uint16_t* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(as256(p))), 16))};
  }
  static inline F bf16_in_order(F a) { return a; }
  // 16 pairs: even = first of each pair, odd = second.
  static inline F load_bf16_even(const std::uint16_t* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16))};
  }
  static inline F load_bf16_odd(const std::uint16_t* p) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), upper))};
  }
  static inline void store_bf16(std::uint16_t* p, F x) {  // ties to even, as tensor/dtype.h rounds
    __m512i bits = _mm512_castps_si512(x.v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
    rounded =
        _mm512_mask_blend_epi32(nan, rounded, _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40)));
    _mm256_storeu_si256(as256(p), _mm512_cvtepi32_epi16(rounded));
  }
  static inline F load_u8(const std::uint8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  static inline F load_i8(const std::int8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  static inline F load_e4m3(
      const std::uint8_t* p) {  // exponent and mantissa moved into place, bias 7 made 127 by a factor
    __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    __m512i magnitude = _mm512_slli_epi32(_mm512_and_si512(bytes, _mm512_set1_epi32(0x7f)), 20);
    __m512i sign = _mm512_slli_epi32(_mm512_and_si512(bytes, _mm512_set1_epi32(0x80)), 24);
    return {_mm512_mul_ps(_mm512_castsi512_ps(_mm512_or_si512(magnitude, sign)), _mm512_set1_ps(0x1p120f))};
  }
  static inline F load_e5m2(const std::uint8_t* p) {  // the upper byte of an f16
    __m256i words = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {_mm512_cvtph_ps(_mm256_slli_epi16(words, 8))};
  }
  static inline void store_i8(std::int8_t* p, F x) {  // integral values in -128..127
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.v)));
  }

  static inline I iset1(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  static inline F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }

  static inline B bload(const std::uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  static inline void bstore(std::uint8_t* p, B a) { _mm512_storeu_si512(p, a.v); }
  static inline B bset1(std::uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
  static inline B band(B a, B b) { return {_mm512_and_si512(a.v, b.v)}; }
  static inline B bor(B a, B b) { return {_mm512_or_si512(a.v, b.v)}; }
  static inline B shift_right(B a, int n) { return {_mm512_srl_epi32(a.v, _mm_cvtsi32_si128(n))}; }  // 32-bit lanes
  static inline B shift_left(B a, int n) { return {_mm512_sll_epi32(a.v, _mm_cvtsi32_si128(n))}; }
  static inline B lookup(B nibbles, const std::uint8_t* table16) {
    __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table16)));
    return {_mm512_shuffle_epi8(table, nibbles.v)};
  }
  static inline F lookup_floats(B places, const float* table16) {  // by the lowest four bits of each 32-bit lane
    return {_mm512_permutexvar_ps(places.v, _mm512_loadu_ps(table16))};
  }
  static inline F as_floats(B a) { return {_mm512_castsi512_ps(a.v)}; }
  static inline F byte_to_float(B a, int index) {  // byte `index` of each 32-bit lane, unsigned
    return {_mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srl_epi32(a.v, _mm_cvtsi32_si128(8 * index)), _mm512_set1_epi32(255)))};
  }

  static P dot_pairs(P acc, B w, A a);  // these are not there, and not called
  static I add_pairs(I acc, P pairs);
  struct S {};
  static S centre(B codes);
  static S sload(const std::uint8_t* p);
  static I dot4_centred(I acc, S w, A a);
  static inline A aload(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return {_mm512_set1_epi32(four)};
  }
  // acc + sum of 4 products, unsigned weights times signed activations; exact. kSmall: weights are below 128.
  template <bool kSmall>
  static inline I dot4(I acc, B w, A a) {
    return {_mm512_dpbusd_epi32(acc.v, w.v, a.v)};
  }

  // Keeps a value in its register and the optimiser away from it (measuring loops).
  template <class V>
  static inline void keep(V& a) {
    asm volatile("" : "+v"(a.v));
  }

 private:
  static inline __mmask16 low(int n) { return static_cast<__mmask16>((1u << n) - 1); }
  static inline const __m256i* as256(const void* p) { return static_cast<const __m256i*>(p); }
  static inline __m256i* as256(void* p) { return static_cast<__m256i*>(p); }
};

}  // namespace espalier::kernels::avx512
