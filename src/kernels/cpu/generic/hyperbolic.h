// hyperbolic.h: the hyperbolic tangent on sixteen lanes, a few units in the last place from it over all arguments, the
// same bits wherever it is called.
#pragma once

#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA {

// (e - 1) / (e + 1), e = exp(2x), with e - 1 found without subtracting nearly equal numbers: 2^f - 1 from its series,
// then 2^n (2^f - 1) + (2^n - 1). From 10 on the result is 1 to the last bit. NaN gives some number in [-1, 1] or NaN.
ESPALIER_LANES inline Simd::F tanh(Simd::F x) {
  x = Simd::min(Simd::max(x, Simd::set1(-10.0f)), Simd::set1(10.0f));
  const Simd::F power = Simd::mul(x, Simd::set1(2.0f * 1.44269504088896340736f));
  const Simd::F whole = Simd::round(power);
  const Simd::F f = Simd::sub(power, whole);
  Simd::F r = Simd::set1(1.5353362e-4f);  // as in exp2
  r = Simd::fma(r, f, Simd::set1(1.3398874e-3f));
  r = Simd::fma(r, f, Simd::set1(9.6184373e-3f));
  r = Simd::fma(r, f, Simd::set1(5.5503324e-2f));
  r = Simd::fma(r, f, Simd::set1(2.4022648e-1f));
  r = Simd::fma(r, f, Simd::set1(6.9314720e-1f));
  r = Simd::mul(r, f);  // 2^f - 1
  const Simd::F one = Simd::set1(1.0f), scale = Simd::scale_by_power(one, whole);
  const Simd::F less = Simd::fma(r, scale, Simd::sub(scale, one));
  return Simd::div(less, Simd::add(less, Simd::set1(2.0f)));
}

}  // namespace espalier::kernels::ESPALIER_ISA
