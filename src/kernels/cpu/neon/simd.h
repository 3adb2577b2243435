// simd.h (AArch64 with dot product): sixteen lanes are four registers. See ../generic/README.md for the contract.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace espalier::kernels::neon {

// Sixteen lanes in NEON.
struct Simd {
  static constexpr int kInt8Rows = 2, kInt8Panels = 1;  // 32 registers: 8 integer and 8 float accumulators
  static constexpr int kFloatRows = 4, kHalfRows = 4;   // of the float micro-kernels' tiles; weights of 16 bits
  static constexpr int float_panels(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }  // 16 accumulators
  static constexpr int half_panels(int rows) { return float_panels(rows); }
  static constexpr int kTileRows = 2, kScoreGroups = 2, kValueVectors = 2;  // attention: 16 accumulators
  static constexpr int kStateVectors = 1;   // columns of a recurrent state that go together, in sixteens
  static constexpr bool kAskAhead = false;  // whether it asks memory for what follows (generic/tile.h)
  static constexpr int kPeakChains = 5;     // independent accumulators that fit the registers
  static constexpr bool kPairSums = false, kCentredDot = false;

  struct F {
    float32x4_t v[4];
  };
  struct I {
    int32x4_t v[4];
  };
  struct B {
    uint8x16_t v[4];
  };
  struct P {};  // no 16-bit sums
  struct A {
    int8x16_t v;
  };

  struct Lanes {
    uint32x4_t v[4];
  };

  template <class T, class Op>
  static inline T map(Op op) {
    return {{op(0), op(1), op(2), op(3)}};
  }

  static inline F zero() { return set1(0.0f); }
  static inline F set1(float x) {
    return map<F>([&](int) { return vdupq_n_f32(x); });
  }
  static inline F load(const float* p) {
    return map<F>([&](int q) { return vld1q_f32(p + 4 * q); });
  }
  static inline void store(float* p, F x) {
    for (int q = 0; q < 4; ++q) vst1q_f32(p + 4 * q, x.v[q]);
  }
  static inline Lanes lanes_from(int n) {
    const uint32x4_t four = {0, 1, 2, 3};
    return map<Lanes>([&](int q) { return vcgeq_s32(vreinterpretq_s32_u32(four), vdupq_n_s32(n - 4 * q)); });
  }
  static inline Lanes greater(F a, F b) {
    return map<Lanes>([&](int q) { return vcgtq_f32(a.v[q], b.v[q]); });
  }
  static inline F select(Lanes where, F yes, F no) {
    return map<F>([&](int q) { return vbslq_f32(where.v[q], yes.v[q], no.v[q]); });
  }
  static inline F load_n(const float* p, int n) {
    float whole[16] = {};
    for (int i = 0; i < n; ++i) whole[i] = p[i];
    return load(whole);
  }
  static inline void store_n(float* p, F x, int n) {
    float whole[16];
    store(whole, x);
    for (int i = 0; i < n; ++i) p[i] = whole[i];
  }
  static inline F add(F a, F b) {
    return map<F>([&](int q) { return vaddq_f32(a.v[q], b.v[q]); });
  }
  static inline F sub(F a, F b) {
    return map<F>([&](int q) { return vsubq_f32(a.v[q], b.v[q]); });
  }
  static inline F mul(F a, F b) {
    return map<F>([&](int q) { return vmulq_f32(a.v[q], b.v[q]); });
  }
  static inline F div(F a, F b) {
    return map<F>([&](int q) { return vdivq_f32(a.v[q], b.v[q]); });
  }
  static inline F fma(F a, F b, F c) {
    return map<F>([&](int q) { return vfmaq_f32(c.v[q], a.v[q], b.v[q]); });
  }
  static inline F max(F a, F b) {
    return map<F>([&](int q) { return vbslq_f32(vcgtq_f32(a.v[q], b.v[q]), a.v[q], b.v[q]); });
  }
  static inline F min(F a, F b) {
    return map<F>([&](int q) { return vbslq_f32(vcltq_f32(a.v[q], b.v[q]), a.v[q], b.v[q]); });
  }
  static inline F sqrt(F a) {
    return map<F>([&](int q) { return vsqrtq_f32(a.v[q]); });
  }
  static inline F abs(F a) {
    return map<F>([&](int q) { return vabsq_f32(a.v[q]); });
  }
  static inline F round(F a) {
    return map<F>([&](int q) { return vrndnq_f32(a.v[q]); });
  }
  static constexpr float kLeastPower = -127.0f, kMostPower = 127.0f;
  static inline F scale_by_power(F a, F n) {  // as in AVX2
    return map<F>([&](int q) { return vmulq_f32(a.v[q], power(vcvtq_s32_f32(n.v[q]))); });
  }
  static inline F swap_pairs(F a) {
    return map<F>([&](int q) { return vrev64q_f32(a.v[q]); });
  }
  static inline F load_twice(const float* p) {  // 8 floats, each in two neighbouring lanes
    const float32x4_t low = vld1q_f32(p), high = vld1q_f32(p + 4);
    return {{vzip1q_f32(low, low), vzip2q_f32(low, low), vzip1q_f32(high, high), vzip2q_f32(high, high)}};
  }
  static inline float reduce_add(F a) {
    float32x4_t four = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
  static inline float reduce_max(F a) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3])));
  }
  static inline void reduce_add4(const F (&a)[4], float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_add(a[i]);
  }
  static inline void reduce_max4(const F (&a)[4], float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_max(a[i]);
  }

  static inline F load_f16(const std::uint16_t* p) {
    return map<F>([&](int q) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * q))); });
  }
  static inline void store_f16(std::uint16_t* p, F x) {
    for (int q = 0; q < 4; ++q) vst1_u16(p + 4 * q, vreinterpret_u16_f16(vcvt_f16_f32(x.v[q])));
  }
  static inline F load_bf16(const std::uint16_t* p) {
    return map<F>([&](int q) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * q), 16)); });
  }
  static inline F bf16_in_order(F a) { return a; }
  static inline F load_bf16_even(const std::uint16_t* p) {
    return map<F>(
        [&](int q) { return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u16(vld1q_u16(p + 8 * q)), 16)); });
  }
  static inline F load_bf16_odd(const std::uint16_t* p) {
    return map<F>([&](int q) {
      return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u16(vld1q_u16(p + 8 * q)), vdupq_n_u32(0xffff0000u)));
    });
  }
  static inline void store_bf16(std::uint16_t* p, F x) {
    for (int q = 0; q < 4; ++q) {
      uint32x4_t bits = vreinterpretq_u32_f32(x.v[q]);
      uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
      uint32x4_t sum = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
      uint32x4_t number = vceqq_f32(x.v[q], x.v[q]);
      uint32x4_t rounded = vbslq_u32(number, sum, vorrq_u32(bits, vdupq_n_u32(0x400000)));
      vst1_u16(p + 4 * q, vshrn_n_u32(rounded, 16));
    }
  }
  static inline F load_u8(const std::uint8_t* p) {
    uint8x16_t bytes = vld1q_u8(p);
    uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_u8(vget_high_u8(bytes));
    return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(low))),
             vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))}};
  }
  static inline F load_i8(const std::int8_t* p) {
    int8x16_t bytes = vld1q_s8(p);
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
  }
  static inline F load_e4m3(
      const std::uint8_t* p) {  // exponent and mantissa moved into place, bias 7 made 127 by a factor
    return map<F>([&](int q) {
      std::uint32_t lane[4];
      for (int i = 0; i < 4; ++i) lane[i] = (p[4 * q + i] & 0x7fu) << 20 | (p[4 * q + i] & 0x80u) << 24;
      return vmulq_n_f32(vreinterpretq_f32_u32(vld1q_u32(lane)), 0x1p120f);
    });
  }
  static inline F load_e5m2(const std::uint8_t* p) {  // the upper byte of an f16
    return map<F>([&](int q) {
      std::uint16_t lane[4];
      for (int i = 0; i < 4; ++i) lane[i] = static_cast<std::uint16_t>(p[4 * q + i] << 8);
      return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(lane)));
    });
  }
  static inline void store_i8(std::int8_t* p, F x) {
    for (int q = 0; q < 4; ++q) {
      int16x4_t words = vmovn_s32(vcvtnq_s32_f32(x.v[q]));
      int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
      __builtin_memcpy(p + 4 * q, &bytes, 4);
    }
  }

  static inline I iset1(std::int32_t x) {
    return map<I>([&](int) { return vdupq_n_s32(x); });
  }
  static inline F to_float(I a) {
    return map<F>([&](int q) { return vcvtq_f32_s32(a.v[q]); });
  }

  static inline B bload(const std::uint8_t* p) {
    return map<B>([&](int q) { return vld1q_u8(p + 16 * q); });
  }
  static inline void bstore(std::uint8_t* p, B a) {
    for (int q = 0; q < 4; ++q) vst1q_u8(p + 16 * q, a.v[q]);
  }
  static inline B bset1(std::uint8_t x) {
    return map<B>([&](int) { return vdupq_n_u8(x); });
  }
  static inline B band(B a, B b) {
    return map<B>([&](int q) { return vandq_u8(a.v[q], b.v[q]); });
  }
  static inline B bor(B a, B b) {
    return map<B>([&](int q) { return vorrq_u8(a.v[q], b.v[q]); });
  }
  static inline B shift_right(B a, int n) { return shift_left(a, -n); }
  static inline B shift_left(B a, int n) {
    return map<B>([&](int q) { return vreinterpretq_u8_u32(vshlq_u32(vreinterpretq_u32_u8(a.v[q]), vdupq_n_s32(n))); });
  }
  static inline B lookup(B nibbles, const std::uint8_t* table16) {
    uint8x16_t table = vld1q_u8(table16);
    return map<B>([&](int q) { return vqtbl1q_u8(table, nibbles.v[q]); });
  }
  static inline F lookup_floats(B places, const float* table16) {  // by the lowest four bits of each 32-bit lane
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(table16);
    const uint8x16x4_t table = {{vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
    return map<F>([&](int q) {  // the four bytes of a float stand at 4 * place + 0..3
      const uint32x4_t place = vandq_u32(vreinterpretq_u32_u8(places.v[q]), vdupq_n_u32(15));
      const uint32x4_t at = vmlaq_u32(vdupq_n_u32(0x03020100), place, vdupq_n_u32(0x04040404));
      return vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_u32(at)));
    });
  }
  static inline F as_floats(B a) {
    return map<F>([&](int q) { return vreinterpretq_f32_u8(a.v[q]); });
  }
  static inline F byte_to_float(B a, int index) {
    return map<F>([&](int q) {
      uint32x4_t lane = vshlq_u32(vreinterpretq_u32_u8(a.v[q]), vdupq_n_s32(-8 * index));
      return vcvtq_f32_u32(vandq_u32(lane, vdupq_n_u32(255)));
    });
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
    return {vreinterpretq_s8_s32(vdupq_n_s32(four))};
  }
  // Weights below 128 are signed bytes too. Others: w = (w - 128) + 128, and 128 * sum(a) is one more signed dot.
  template <bool kSmall>
  static inline I dot4(I acc, B w, A a) {
    return map<I>([&](int q) {
      if constexpr (kSmall) return vdotq_s32(acc.v[q], vreinterpretq_s8_u8(w.v[q]), a.v);
      int8x16_t centred = vreinterpretq_s8_u8(veorq_u8(w.v[q], vdupq_n_u8(0x80)));
      int32x4_t sum = vdotq_s32(vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(64), a.v), vdupq_n_s8(64), a.v);
      return vaddq_s32(vdotq_s32(acc.v[q], centred, a.v), sum);
    });
  }

  // Keeps a value in its registers and the optimiser away from it (measuring loops).
  template <class V>
  static inline void keep(V& a) {
    asm volatile("" : "+w"(a.v[0]), "+w"(a.v[1]), "+w"(a.v[2]), "+w"(a.v[3]));
  }

 private:
  static inline float32x4_t power(int32x4_t n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
  }
};

}  // namespace espalier::kernels::neon
