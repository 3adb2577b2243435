// function_values.h: exp, log(1 + x), tanh, erf and the activations made of them, on sixteen lanes.
//
// Polynomials are minimax fits over the ranges named, each below 3e-8; with the roundings results are within some 2e-7
// of the value, relatively. NaN stays NaN: min and max give their second argument where one is NaN, so x stands there.
// Range reductions hold with and without a fused multiply-add (the scalar set has none).
#pragma once

#include "kernels/cpu/functions.h"
#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA::function {

using F = Simd::F;

ESPALIER_LANES inline F at_most(float most, F x) {
  return Simd::min(Simd::set1(most), x);
}
ESPALIER_LANES inline F at_least(float least, F x) {
  return Simd::max(Simd::set1(least), x);
}
ESPALIER_LANES inline F negative(F x) {
  return Simd::sub(Simd::zero(), x);
}

template <int kCount>
ESPALIER_LANES inline F polynomial(F x, const float (&coefficients)[kCount]) {  // of ascending powers
  F sum = Simd::set1(coefficients[kCount - 1]);
  for (int i = kCount - 2; i >= 0; --i) sum = Simd::fma(sum, x, Simd::set1(coefficients[i]));
  return sum;
}

// x + low = power * ln 2 + rest; rest_expm1 = exp(rest) - 1.
struct Reduced {
  F power, rest_expm1;
};
ESPALIER_LANES inline Reduced reduce(F x, F low) {
  constexpr float kLog2e = 1.44269504088896341f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // high: 9 bits
  constexpr float kTerms[] = {4.999999815e-01f, 1.666654342e-01f, 4.166720071e-02f, 8.366547140e-03f, 1.388251626e-03f};
  const F n = Simd::round(Simd::mul(x, Simd::set1(kLog2e)));
  F r = Simd::fma(n, Simd::set1(-kLn2High), x);
  r = Simd::add(Simd::fma(n, Simd::set1(-kLn2Low), r), low);
  return {n, Simd::fma(Simd::mul(r, r), polynomial(r, kTerms), r)};
}

// exp(x + low) for x clamped to [-87, 88], where one power of two is enough; low is small.
ESPALIER_LANES inline F exp_within(F x, F low) {
  const Reduced e = reduce(at_most(88.0f, at_least(-87.0f, x)), low);
  return Simd::scale_by_power(Simd::add(Simd::set1(1.0f), e.rest_expm1), e.power);
}
ESPALIER_LANES inline F exp_within(F x) {
  return exp_within(x, Simd::zero());
}

// To infinity and to zero.
ESPALIER_LANES inline F exp(F x) {
  const Reduced e = reduce(at_most(89.0f, at_least(-104.0f, x)), Simd::zero());
  const F half = Simd::round(Simd::mul(e.power, Simd::set1(0.5f)));
  const F scaled = Simd::scale_by_power(Simd::add(Simd::set1(1.0f), e.rest_expm1), half);
  return Simd::scale_by_power(scaled, Simd::sub(e.power, half));
}

ESPALIER_LANES inline F expm1_within(F x) {  // x clamped to [-87, 88]
  const Reduced e = reduce(at_most(88.0f, at_least(-87.0f, x)), Simd::zero());
  const F scale = Simd::scale_by_power(Simd::set1(1.0f), e.power);
  return Simd::fma(scale, e.rest_expm1, Simd::sub(scale, Simd::set1(1.0f)));
}

// log(1 + t) for t in [0, 1], as 2 artanh(t / (2 + t)).
ESPALIER_LANES inline F log1p_unit(F t) {
  constexpr float kTerms[] = {6.666667562e-01f, 3.999887775e-01f, 2.861688474e-01f, 2.142765825e-01f, 2.430093374e-01f};
  const F s = Simd::div(t, Simd::add(Simd::set1(2.0f), t)), square = Simd::mul(s, s);
  return Simd::fma(Simd::mul(s, square), polynomial(square, kTerms), Simd::add(s, s));
}

ESPALIER_LANES inline F sigmoid(F x) {
  return Simd::div(Simd::set1(1.0f), Simd::add(Simd::set1(1.0f), exp_within(negative(x))));
}
ESPALIER_LANES inline F silu(F x) {
  return Simd::mul(x, sigmoid(x));
}
ESPALIER_LANES inline F tanh(F x) {
  const F e = expm1_within(at_most(40.0f, at_least(-40.0f, Simd::add(x, x))));
  return Simd::div(e, Simd::add(e, Simd::set1(2.0f)));
}
ESPALIER_LANES inline F softplus(F x) {
  return Simd::add(at_least(0.0f, x), log1p_unit(exp_within(negative(Simd::abs(x)))));
}

ESPALIER_LANES inline F gelu_tanh(F x) {  // (1 + tanh(u)) / 2 = sigmoid(2 u)
  const F inner = Simd::mul(x, Simd::fma(Simd::mul(x, x), Simd::set1(0.044715f), Simd::set1(1.0f)));
  return Simd::mul(x, sigmoid(Simd::mul(inner, Simd::set1(1.5957691216057308f))));
}

// max(x, 0) - |x| * erfc(|x| / sqrt(2)) / 2. The tail is exp(-x^2 / 2) times a polynomial in 1 / (1 + 0.35 |x|); the
// square is taken in two parts, the upper one exact, as its rounding would show in the exponential.
ESPALIER_LANES inline F gelu_erf(F x) {
  constexpr float kTerms[] = {-1.102405211e-06f, 1.396459530e-01f,  1.396315947e-01f, 1.210289903e-01f,
                              1.017067062e-01f,  -1.542035791e-02f, 1.492389101e-01f, -2.477800208e-01f,
                              1.404060129e-01f,  -2.845670049e-02f};
  const F a = at_most(15.0f, Simd::abs(x)), half = Simd::set1(-0.5f);
  const F wide = Simd::mul(a, Simd::set1(4097.0f)), upper = Simd::sub(wide, Simd::sub(wide, a));  // 12 bits
  const F low = Simd::mul(Simd::sub(a, upper), Simd::add(a, upper));
  const F bell = exp_within(Simd::mul(Simd::mul(upper, upper), half), Simd::mul(low, half));
  const F u = Simd::div(Simd::set1(1.0f), Simd::fma(a, Simd::set1(0.35f), Simd::set1(1.0f)));
  return Simd::sub(at_least(0.0f, x), Simd::mul(a, Simd::mul(bell, polynomial(u, kTerms))));
}

ESPALIER_LANES inline F mish(F x) {  // tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2)
  const F e = exp_within(at_most(40.0f, x)), both = Simd::mul(e, Simd::add(e, Simd::set1(2.0f)));
  return Simd::mul(x, Simd::div(both, Simd::add(both, Simd::set1(2.0f))));
}

ESPALIER_LANES inline F elu(const Activation& a, F x) {
  const F below = Simd::mul(Simd::set1(a.negative), expm1_within(at_most(0.0f, x)));
  return Simd::add(at_least(0.0f, x), below);
}

ESPALIER_LANES inline F xielu(const Activation& a, F x) {
  const F line = Simd::mul(Simd::set1(a.linear), x);
  const F above = Simd::fma(Simd::mul(Simd::set1(a.positive), x), x, line);
  const F below = Simd::fma(Simd::set1(a.negative), Simd::sub(expm1_within(at_most(a.least, x)), x), line);
  return Simd::select(Simd::greater(x, Simd::zero()), above, below);
}

// use(f), f being the activation as a function of sixteen lanes: the choice is made once a row.
template <class Use>
ESPALIER_LANES inline void with_activation(const Activation& a, Use use) {
  switch (a.kind) {
    case ActivationKind::identity:
      return use([](F x) { return x; });
    case ActivationKind::silu:
      return use([&](F x) { return Simd::mul(x, sigmoid(Simd::mul(Simd::set1(a.slope), x))); });
    case ActivationKind::gelu_quick:
      return use([](F x) { return Simd::mul(x, sigmoid(Simd::mul(Simd::set1(1.702f), x))); });
    case ActivationKind::gelu_tanh:
      return use([](F x) { return gelu_tanh(x); });
    case ActivationKind::gelu_erf:
      return use([](F x) { return gelu_erf(x); });
    case ActivationKind::relu:
      return use([](F x) { return at_least(0.0f, x); });
    case ActivationKind::relu2:
      return use([](F x) { return Simd::mul(at_least(0.0f, x), at_least(0.0f, x)); });
    case ActivationKind::sigmoid:
      return use([](F x) { return sigmoid(x); });
    case ActivationKind::log_sigmoid:
      return use([](F x) { return negative(softplus(negative(x))); });
    case ActivationKind::tanh:
      return use([](F x) { return tanh(x); });
    case ActivationKind::softplus:
      return use([](F x) { return softplus(x); });
    case ActivationKind::sqrt_softplus:
      return use([](F x) { return Simd::sqrt(softplus(x)); });
    case ActivationKind::exp:
      return use([](F x) { return exp(x); });
    case ActivationKind::minus_exp:
      return use([](F x) { return negative(exp(x)); });
    case ActivationKind::elu:
      return use([&](F x) { return elu(a, x); });
    case ActivationKind::mish:
      return use([](F x) { return mish(x); });
    case ActivationKind::xielu:
      return use([&](F x) { return xielu(a, x); });
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA::function
