// simd.h (plain C++): sixteen lanes are sixteen floats; runs on any processor. See ../generic/README.md for the
// contract.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/dtype.h"

namespace espalier::kernels::scalar {

// Sixteen lanes as plain loops.
struct Simd {
  static constexpr int kInt8Rows = 2, kInt8Panels = 1;
  static constexpr int kFloatRows = 2, kHalfRows = 2;  // of the float micro-kernels' tiles; weights of 16 bits
  static constexpr int float_panels(int rows) { return 3 - rows; }
  static constexpr int half_panels(int rows) { return float_panels(rows); }
  static constexpr int kTileRows = 2, kScoreGroups = 2, kValueVectors = 2;
  static constexpr int kStateVectors = 1;   // columns of a recurrent state that go together, in sixteens
  static constexpr bool kAskAhead = false;  // whether it asks memory for what follows (generic/tile.h)
  static constexpr int kPeakChains = 2;     // independent accumulators that fit the registers
  static constexpr bool kPairSums = false, kCentredDot = false;

  struct F {
    float v[16];
  };
  struct I {
    std::int32_t v[16];
  };
  struct B {
    std::uint8_t v[64];
  };
  struct P {};  // no 16-bit sums
  struct A {
    std::int8_t v[4];
  };

  struct Lanes {
    std::uint32_t bits;
  };

  template <class T, class Op>
  static inline T lanes(Op op) {
    T out;
    for (int i = 0; i < 16; ++i) out.v[i] = op(i);
    return out;
  }
  template <class Op>
  static inline B bytes(Op op) {
    B out;
    for (int i = 0; i < 64; ++i) out.v[i] = static_cast<std::uint8_t>(op(i));
    return out;
  }

  static inline Lanes lanes_from(int n) { return {0xffffu << n}; }
  static inline Lanes greater(F a, F b) {
    Lanes out = {0};
    for (int i = 0; i < 16; ++i) out.bits |= (a.v[i] > b.v[i] ? 1u : 0u) << i;
    return out;
  }
  static inline F select(Lanes where, F yes, F no) {
    return lanes<F>([&](int i) { return (where.bits >> i & 1) != 0 ? yes.v[i] : no.v[i]; });
  }
  static inline F zero() { return set1(0.0f); }
  static inline F set1(float x) {
    return lanes<F>([&](int) { return x; });
  }
  static inline F load(const float* p) {
    return lanes<F>([&](int i) { return p[i]; });
  }
  static inline void store(float* p, F x) { store_n(p, x, 16); }
  static inline F load_n(const float* p, int n) {
    return lanes<F>([&](int i) { return i < n ? p[i] : 0.0f; });
  }
  static inline void store_n(float* p, F x, int n) {
    for (int i = 0; i < n; ++i) p[i] = x.v[i];
  }
  static inline F add(F a, F b) {
    return lanes<F>([&](int i) { return a.v[i] + b.v[i]; });
  }
  static inline F sub(F a, F b) {
    return lanes<F>([&](int i) { return a.v[i] - b.v[i]; });
  }
  static inline F mul(F a, F b) {
    return lanes<F>([&](int i) { return a.v[i] * b.v[i]; });
  }
  static inline F div(F a, F b) {
    return lanes<F>([&](int i) { return a.v[i] / b.v[i]; });
  }
  static inline F fma(F a, F b, F c) {
    return lanes<F>([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  static inline F max(F a, F b) {
    return lanes<F>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static inline F min(F a, F b) {
    return lanes<F>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static inline F sqrt(F a) {
    return lanes<F>([&](int i) { return std::sqrt(a.v[i]); });
  }
  static inline F abs(F a) {
    return lanes<F>([&](int i) { return std::fabs(a.v[i]); });
  }
  static inline F round(F a) {
    return lanes<F>([&](int i) { return std::nearbyintf(a.v[i]); });
  }
  static constexpr float kLeastPower = -200.0f, kMostPower = 127.99f;
  static inline F scale_by_power(F a, F n) {
    return lanes<F>([&](int i) { return std::ldexp(a.v[i], static_cast<int>(n.v[i])); });
  }
  static inline F swap_pairs(F a) {
    return lanes<F>([&](int i) { return a.v[i ^ 1]; });
  }
  static inline F load_twice(const float* p) {  // 8 floats, each in two neighbouring lanes
    return lanes<F>([&](int i) { return p[i / 2]; });
  }
  static inline float reduce_add(F a) {  // the same tree as the wide registers fold by halves
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
    return a.v[0];
  }
  static inline float reduce_max(F a) {
    for (int i = 1; i < 16; ++i) a.v[0] = a.v[i] > a.v[0] ? a.v[i] : a.v[0];
    return a.v[0];
  }
  static inline void reduce_add4(const F (&a)[4], float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_add(a[i]);
  }
  static inline void reduce_max4(const F (&a)[4], float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_max(a[i]);
  }

  static inline F load_f16(const std::uint16_t* p) {
    return lanes<F>([&](int i) { return espalier::to_float(f16{p[i]}); });
  }
  static inline void store_f16(std::uint16_t* p, F x) {
    for (int i = 0; i < 16; ++i) p[i] = to_f16(x.v[i]).bits;
  }
  static inline F load_bf16(const std::uint16_t* p) {
    return lanes<F>([&](int i) { return espalier::to_float(bf16{p[i]}); });
  }
  static inline F bf16_in_order(F a) { return a; }
  static inline F load_bf16_even(const std::uint16_t* p) {
    return lanes<F>([&](int i) { return espalier::to_float(bf16{p[2 * i]}); });
  }
  static inline F load_bf16_odd(const std::uint16_t* p) { return load_bf16_even(p + 1); }
  static inline void store_bf16(std::uint16_t* p, F x) {
    for (int i = 0; i < 16; ++i) p[i] = to_bf16(x.v[i]).bits;
  }
  static inline F load_u8(const std::uint8_t* p) {
    return lanes<F>([&](int i) { return static_cast<float>(p[i]); });
  }
  static inline F load_i8(const std::int8_t* p) {
    return lanes<F>([&](int i) { return static_cast<float>(p[i]); });
  }
  static inline F load_e4m3(const std::uint8_t* p) {
    return lanes<F>([&](int i) {
      float a = (p[i] & 0x78) ? std::ldexp(8.0f + (p[i] & 7), ((p[i] >> 3) & 15) - 10)
                              : std::ldexp(static_cast<float>(p[i] & 7), -9);
      return p[i] & 0x80 ? -a : a;
    });
  }
  static inline F load_e5m2(const std::uint8_t* p) {
    return lanes<F>([&](int i) { return espalier::to_float(f16{static_cast<std::uint16_t>(p[i] << 8)}); });
  }
  static inline void store_i8(std::int8_t* p, F x) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(x.v[i]);
  }

  static inline I iset1(std::int32_t x) {
    return lanes<I>([&](int) { return x; });
  }
  static inline F to_float(I a) {
    return lanes<F>([&](int i) { return static_cast<float>(a.v[i]); });
  }

  static inline B bload(const std::uint8_t* p) {
    return bytes([&](int i) { return p[i]; });
  }
  static inline void bstore(std::uint8_t* p, B a) { __builtin_memcpy(p, &a, 64); }
  static inline B bset1(std::uint8_t x) {
    return bytes([&](int) { return x; });
  }
  static inline B band(B a, B b) {
    return bytes([&](int i) { return a.v[i] & b.v[i]; });
  }
  static inline B bor(B a, B b) {
    return bytes([&](int i) { return a.v[i] | b.v[i]; });
  }
  static inline B shift_right(B a, int n) {
    return words(a, [&](std::uint32_t w) { return w >> n; });
  }
  static inline B shift_left(B a, int n) {
    return words(a, [&](std::uint32_t w) { return w << n; });
  }
  static inline B lookup(B nibbles, const std::uint8_t* table16) {
    return bytes([&](int i) { return table16[nibbles.v[i] & 15]; });
  }
  static inline F lookup_floats(B places, const float* table16) {  // by the lowest four bits of each 32-bit lane
    F out;
    for (int i = 0; i < 16; ++i) out.v[i] = table16[places.v[4 * i] & 15];
    return out;
  }
  static inline F as_floats(B a) {
    F out;
    __builtin_memcpy(&out, &a, 64);
    return out;
  }
  static inline F byte_to_float(B a, int index) {
    return lanes<F>([&](int i) { return static_cast<float>(a.v[4 * i + index]); });
  }

  static P dot_pairs(P acc, B w, A a);  // these are not there, and not called
  static I add_pairs(I acc, P pairs);
  struct S {};
  static S centre(B codes);
  static S sload(const std::uint8_t* p);
  static I dot4_centred(I acc, S w, A a);
  static inline A aload(const std::int8_t* p) { return {{p[0], p[1], p[2], p[3]}}; }
  template <bool kSmall>
  static inline I dot4(I acc, B w, A a) {
    for (int i = 0; i < 16; ++i)
      for (int b = 0; b < 4; ++b) acc.v[i] += w.v[4 * i + b] * a.v[b];
    return acc;
  }

  // Keeps the optimiser away from a value (measuring loops).
  template <class V>
  static inline void keep(V& a) {
    asm volatile("" : "+m"(a));
  }

 private:
  template <class Op>
  static inline B words(B a, Op op) {
    B out;
    for (int i = 0; i < 16; ++i) {
      std::uint32_t w;
      __builtin_memcpy(&w, a.v + 4 * i, 4);
      w = op(w);
      __builtin_memcpy(out.v + 4 * i, &w, 4);
    }
    return out;
  }
};

}  // namespace espalier::kernels::scalar
