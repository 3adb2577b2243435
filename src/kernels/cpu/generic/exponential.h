// exponential.h: 2^x on sixteen lanes, relative error below 2e-7, the same bits wherever it is called.
#pragma once

#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA {

// x is clamped to [kLeastPower, kMostPower]: at and below the least, which is -127 or less, the result is 0. -inf gives
// 0.
ESPALIER_LANES inline Simd::F exp2(Simd::F x) {
  x = Simd::min(Simd::max(x, Simd::set1(Simd::kLeastPower)), Simd::set1(Simd::kMostPower));
  const Simd::F whole = Simd::round(x);
  const Simd::F f = Simd::sub(x, whole);  // -0.5 .. 0.5, exact
  // Coefficients ln(2)^n / n!, nudged to a minimax fit on [-0.5, 0.5].
  Simd::F r = Simd::set1(1.5353362e-4f);
  r = Simd::fma(r, f, Simd::set1(1.3398874e-3f));
  r = Simd::fma(r, f, Simd::set1(9.6184373e-3f));
  r = Simd::fma(r, f, Simd::set1(5.5503324e-2f));
  r = Simd::fma(r, f, Simd::set1(2.4022648e-1f));
  r = Simd::fma(r, f, Simd::set1(6.9314720e-1f));
  r = Simd::fma(r, f, Simd::set1(1.0f));
  return Simd::scale_by_power(r, whole);
}

}  // namespace espalier::kernels::ESPALIER_ISA
