// gate.h: what becomes of a sum of products: it is stored, added to what is there, or gated by it.
#pragma once

#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/generic/row_part.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

ESPALIER_LANES inline Simd::F sigmoid(Simd::F x) {
  constexpr float kMinusLog2e = -1.44269504088896340736f;
  return Simd::div(Simd::set1(1.0f), Simd::add(Simd::set1(1.0f), exp2(Simd::mul(x, Simd::set1(kMinusLog2e)))));
}

ESPALIER_LANES inline Simd::F silu(Simd::F x) {
  return Simd::mul(x, sigmoid(x));
}

// x * (1 + tanh(u)) / 2 = x * sigmoid(2u), u = sqrt(2 / pi) * (x + 0.044715 x^3)
ESPALIER_LANES inline Simd::F gelu(Simd::F x) {
  const Simd::F inner = Simd::mul(x, Simd::fma(Simd::mul(x, x), Simd::set1(0.044715f), Simd::set1(1.0f)));
  return Simd::mul(x, sigmoid(Simd::mul(inner, Simd::set1(1.5957691216057308f))));
}

// `there` and the sum.
ESPALIER_LANES inline Simd::F combine(Finish finish, Simd::F there, Simd::F sum) {
  switch (finish) {
    case Finish::store:
      return sum;
    case Finish::add:
      return Simd::add(there, sum);
    case Finish::gate_silu:
      return Simd::mul(silu(there), sum);
    case Finish::gate_gelu:
      return Simd::mul(gelu(there), sum);
  }
  return sum;
}

}  // namespace espalier::kernels::ESPALIER_ISA
