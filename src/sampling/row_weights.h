// row_weights.h: what a logit weighs, as a CPU's registers compute it and as a thread of a device does: the same source, hence the
// same bits.
//
// Floats is a float or a vector of them, Bits the unsigned number, or vector, of as many bits. Everything is inlined, and
// vectors are passed by reference only: no vector type crosses a call.
// Threads: pure. Fails: never.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define ESPALIER_INLINE static __host__ __device__ __forceinline__
#else
#define ESPALIER_INLINE [[gnu::always_inline]] static inline
#endif

namespace espalier::sampling {

inline constexpr double kLog2e = 1.4426950408889634;

// The sharpness (1 / temperature) as weight() takes it.
ESPALIER_INLINE float rate_of(double sharpness) {
  return static_cast<float>(sharpness * kLog2e);
}

// 2^t for t <= 0: the nearest integer by adding and subtracting 1.5 x 2^23, then a polynomial for the fraction in
// [-0.5, 0.5] with 2^0 = 1 exactly (minimax, relative error 9.2e-8), then the integer added to the exponent.
template <class Floats, class Bits>
ESPALIER_INLINE void power_of_two(Floats& t) {
  t = t > -127.0f ? t : Floats{} - 127.0f;  // 2^-127 comes out as 0; a NaN too
  Floats shifted = t + 12582912.0f;
  Floats f = t - (shifted - 12582912.0f);
  Floats p = f * 0.001326473874810116f + 0.009671516671316792f;
  p = p * f + 0.05550733752780494f;
  p = p * f + 0.24022242024205184f;
  p = p * f + 0.6931469775691355f;
  p = p * f + 1.0f;
  Bits exponent = (__builtin_bit_cast(Bits, shifted) << 23) + (127u << 23);
  t = p * __builtin_bit_cast(Floats, exponent);
}

// exp((v - reference) * sharpness), to about 2e-7; 0 for -infinity and below 2^-126.
template <class Floats, class Bits>
ESPALIER_INLINE void weight(Floats& v, float reference, float rate) {
  v = (v - reference) * rate;
  power_of_two<Floats, Bits>(v);
}

// e^x for x <= 0, within 2 units of the last place; below e^-708: 0. Own, as libraries' differ by bits.
ESPALIER_INLINE double power_of_e(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;  // high: 21 bits less
  constexpr double kShift = 0x1.8p52;
  if (!(x > -708.0)) return 0.0;
  const double shifted = x * kLog2e + kShift, n = shifted - kShift;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double p = 1.0 / 6227020800.0;  // r^13 / 13!, then the terms below it
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const std::uint64_t exponent = (__builtin_bit_cast(std::uint64_t, shifted) << 52) + (std::uint64_t{1023} << 52);
  return p * __builtin_bit_cast(double, exponent);
}

// What a block of a row counts in sums over the row.
ESPALIER_INLINE double scale_of_block(float block_max, float max, double sharpness) {
  return power_of_e((static_cast<double>(block_max) - static_cast<double>(max)) * sharpness);
}

}  // namespace espalier::sampling
