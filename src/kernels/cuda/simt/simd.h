// simd.h (devices): sixteen lanes are sixteen threads, each with one float of a register; see kernels/cpu/generic/README.md for the
// contract.
//
// Every thread runs what is written for a row: what does not depend on the lane, all sixteen compute alike. A block's
// sixteens share the pieces of a row (row_part.h). A lane sees what others stored to memory behind meet().
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/simt/simt.h"

#define ESPALIER_ISA simt
#define ESPALIER_LANES_ARE_THREADS

namespace espalier::kernels::simt {

inline constexpr bool kRowsAreShared = true;
ESPALIER_ON_DEVICE inline int row_part() {
  return espalier::simt::thread() / 16;
}
ESPALIER_ON_DEVICE inline bool stores_for_all() {
  return (espalier::simt::thread() & 15) == 0;
}
ESPALIER_ON_DEVICE inline int row_parts() {
  return espalier::simt::threads() / 16;
}
ESPALIER_ON_DEVICE inline void meet() {
  espalier::simt::meet();
}

// Bits of floats of 16 and 8 bits, without tables.
ESPALIER_ON_DEVICE inline float float_of_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float x;
  memcpy(&x, &bits, 4);
  return x;
#endif
}
ESPALIER_ON_DEVICE inline std::uint32_t bits_of_float(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  std::uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
#endif
}
ESPALIER_ON_DEVICE inline float half_to_float(std::uint32_t h) {
#ifdef __CUDA_ARCH__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<unsigned short>(h)));
  return x;
#endif
  const std::uint32_t sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
  if (rest >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x400u) return float_of_bits(sign | ((rest << 13) + 0x38000000u));
  const float magnitude = static_cast<float>(rest) * 0x1p-24f;  // subnormal: exact
  return float_of_bits(sign | bits_of_float(magnitude));
}
ESPALIER_ON_DEVICE inline std::uint16_t float_to_half(float x) {  // to nearest, ties to even
  const std::uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000u;
  const std::uint32_t a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | (a >> 13 & 0x3ffu));
  if (a >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (a < 0x38800000u) {  // subnormal or zero
    const float steps = float_of_bits(a) * 0x1p24f;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(rintf(steps)));
  }
  const std::uint32_t rounded = a + 0xfffu + (a >> 13 & 1);
  return static_cast<std::uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}
ESPALIER_ON_DEVICE inline std::uint16_t float_to_bf16(float x) {
  const std::uint32_t bits = bits_of_float(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
ESPALIER_ON_DEVICE inline float e4m3_to_float(std::uint32_t code) {
  const std::uint32_t sign = (code & 0x80u) << 24, rest = code & 0x7fu;
  const float magnitude = rest < 8 ? static_cast<float>(rest) * 0x1p-9f
                                   : float_of_bits((rest << 20) + 0x3c000000u);  // exponent bias 7 made 127
  return float_of_bits(sign | bits_of_float(magnitude));
}

// Sixteen lanes as sixteen threads.
struct Simd {
  using F = float;
  using I = std::int32_t;
  using B = std::uint32_t;  // four bytes
  using A = std::int32_t;   // four signed bytes
  struct P {};
  struct S {};
  struct Lanes {
    bool set;
  };
  static constexpr bool kPairSums = false, kCentredDot = false;

  ESPALIER_ON_DEVICE static int lane() { return espalier::simt::thread() & 15; }

  ESPALIER_ON_DEVICE static Lanes lanes_from(int n) { return {lane() >= n}; }
  ESPALIER_ON_DEVICE static Lanes greater(F a, F b) { return {a > b}; }
  ESPALIER_ON_DEVICE static F select(Lanes where, F yes, F no) { return where.set ? yes : no; }
  ESPALIER_ON_DEVICE static F zero() { return 0.0f; }
  ESPALIER_ON_DEVICE static F set1(float x) { return x; }
  ESPALIER_ON_DEVICE static F load(const float* p) { return p[lane()]; }
  ESPALIER_ON_DEVICE static void store(float* p, F x) { p[lane()] = x; }
  ESPALIER_ON_DEVICE static F load_n(const float* p, int n) { return lane() < n ? p[lane()] : 0.0f; }
  ESPALIER_ON_DEVICE static void store_n(float* p, F x, int n) {
    if (lane() < n) p[lane()] = x;
  }
  // In one rounding each: nvcc is told not to contract (-fmad=false), g++ likewise.
  ESPALIER_ON_DEVICE static F add(F a, F b) { return a + b; }
  ESPALIER_ON_DEVICE static F sub(F a, F b) { return a - b; }
  ESPALIER_ON_DEVICE static F mul(F a, F b) { return a * b; }
  ESPALIER_ON_DEVICE static F div(F a, F b) { return a / b; }
  ESPALIER_ON_DEVICE static F fma(F a, F b, F c) { return fmaf(a, b, c); }
  ESPALIER_ON_DEVICE static F max(F a, F b) { return a > b ? a : b; }
  ESPALIER_ON_DEVICE static F min(F a, F b) { return a < b ? a : b; }
  ESPALIER_ON_DEVICE static F sqrt(F a) { return sqrtf(a); }
  ESPALIER_ON_DEVICE static F abs(F a) { return fabsf(a); }
  ESPALIER_ON_DEVICE static F round(F a) { return rintf(a); }
  static constexpr float kLeastPower = -200.0f, kMostPower = 127.99f;
  ESPALIER_ON_DEVICE static F power_of_two(int n) { return float_of_bits(static_cast<std::uint32_t>(n + 127) << 23); }
  // a * 2^n, n whole and within [-200, 200], rounded once.
  ESPALIER_ON_DEVICE static F scale_by_power(F a, F n) {
    const auto power = static_cast<int>(n);
    if (power < -126) return a * power_of_two(power + 100) * power_of_two(-100);
    if (power > 127) return a * power_of_two(power - 100) * power_of_two(100);
    return a * power_of_two(power);
  }
  ESPALIER_ON_DEVICE static F swap_pairs(F a) { return espalier::simt::of_neighbour_xor<16>(a, 1); }
  ESPALIER_ON_DEVICE static F load_twice(const float* p) { return p[lane() / 2]; }
  ESPALIER_ON_DEVICE static float reduce_add(F a) {  // by halves, as wide registers fold
    for (int half = 8; half > 0; half /= 2) a = a + espalier::simt::of_neighbour_xor<16>(a, half);
    return a;
  }
  ESPALIER_ON_DEVICE static float reduce_max(F a) {
    for (int half = 8; half > 0; half /= 2) a = max(a, espalier::simt::of_neighbour_xor<16>(a, half));
    return a;
  }
  ESPALIER_ON_DEVICE static void reduce_add4(const F (&a)[4], float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_add(a[i]);
  }
  ESPALIER_ON_DEVICE static void reduce_max4(const F (&a)[4], float* out) {
    for (int i = 0; i < 4; ++i) out[i] = reduce_max(a[i]);
  }

  ESPALIER_ON_DEVICE static F load_f16(const std::uint16_t* p) { return half_to_float(p[lane()]); }
  ESPALIER_ON_DEVICE static void store_f16(std::uint16_t* p, F x) { p[lane()] = float_to_half(x); }
  ESPALIER_ON_DEVICE static F load_bf16(const std::uint16_t* p) {
    return float_of_bits(static_cast<std::uint32_t>(p[lane()]) << 16);
  }
  ESPALIER_ON_DEVICE static F bf16_in_order(F a) { return a; }
  ESPALIER_ON_DEVICE static F load_bf16_even(const std::uint16_t* p) {
    return float_of_bits(static_cast<std::uint32_t>(p[2 * lane()]) << 16);
  }
  ESPALIER_ON_DEVICE static F load_bf16_odd(const std::uint16_t* p) { return load_bf16_even(p + 1); }
  ESPALIER_ON_DEVICE static void store_bf16(std::uint16_t* p, F x) { p[lane()] = float_to_bf16(x); }
  ESPALIER_ON_DEVICE static F load_u8(const std::uint8_t* p) { return static_cast<float>(p[lane()]); }
  ESPALIER_ON_DEVICE static F load_i8(const std::int8_t* p) { return static_cast<float>(p[lane()]); }
  // The low and the high four bits of bytes.
  ESPALIER_ON_DEVICE static void load_nibbles(const std::uint8_t* p, F& low, F& high) {
    low = static_cast<float>(p[lane()] & 15);
    high = static_cast<float>(p[lane()] >> 4);
  }
  ESPALIER_ON_DEVICE static F load_e4m3(const std::uint8_t* p) { return e4m3_to_float(p[lane()]); }
  ESPALIER_ON_DEVICE static F load_e5m2(const std::uint8_t* p) {
    return half_to_float(static_cast<std::uint32_t>(p[lane()]) << 8);
  }
  ESPALIER_ON_DEVICE static void store_i8(std::int8_t* p, F x) { p[lane()] = static_cast<std::int8_t>(x); }

  ESPALIER_ON_DEVICE static I iset1(std::int32_t x) { return x; }
  ESPALIER_ON_DEVICE static F to_float(I a) { return static_cast<float>(a); }

  ESPALIER_ON_DEVICE static B bload(const std::uint8_t* p) { return reinterpret_cast<const std::uint32_t*>(p)[lane()]; }
  ESPALIER_ON_DEVICE static void bstore(std::uint8_t* p, B a) { reinterpret_cast<std::uint32_t*>(p)[lane()] = a; }
  ESPALIER_ON_DEVICE static B bset1(std::uint8_t x) { return x * 0x01010101u; }
  ESPALIER_ON_DEVICE static B band(B a, B b) { return a & b; }
  ESPALIER_ON_DEVICE static B bor(B a, B b) { return a | b; }
  ESPALIER_ON_DEVICE static B shift_right(B a, int n) { return a >> n; }
  ESPALIER_ON_DEVICE static B shift_left(B a, int n) { return a << n; }
  ESPALIER_ON_DEVICE static B lookup(B nibbles, const std::uint8_t* table16) {
    B out = 0;
    for (int i = 0; i < 4; ++i) out |= static_cast<B>(table16[nibbles >> (8 * i) & 15]) << (8 * i);
    return out;
  }
  ESPALIER_ON_DEVICE static F lookup_floats(B places, const float* table16) { return table16[places & 15]; }
  ESPALIER_ON_DEVICE static F as_floats(B a) { return float_of_bits(a); }
  ESPALIER_ON_DEVICE static F byte_to_float(B a, int index) { return static_cast<float>(a >> (8 * index) & 255); }

  ESPALIER_ON_DEVICE static A aload(const std::int8_t* p) { return *reinterpret_cast<const std::int32_t*>(p); }
  template <bool kSmall>
  ESPALIER_ON_DEVICE static I dot4(I sum, B w, A a) {
    return espalier::simt::dot4_unsigned(w, a, sum);
  }
};

}  // namespace espalier::kernels::simt
