// row_norms.h: the entries of kernels/cpu/functions.h with a sum over the row inside.
#pragma once

#include "kernels/cpu/generic/for_lanes.h"
#include "kernels/cpu/generic/function_values.h"
#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA::function {

ESPALIER_LANES inline float sum_of_squares(const float* x, std::int64_t n) {
  return sum_row(n, [&](std::int64_t i, int m) {
    const F v = load_some(x + i, m);
    return Simd::mul(v, v);
  });
}

[[gnu::flatten]] ESPALIER_LANES inline void layer_norm(const float* x, const float* gain, const float* bias, float eps,
                                                       float* y, std::int64_t n) {
  const float count = static_cast<float>(n);
  const float mean = sum_row(n, [&](std::int64_t i, int m) { return load_some(x + i, m); }) / count;
  const F centre = Simd::set1(mean);
  const float squares = sum_row(n, [&](std::int64_t i, int m) {
    const F v = Simd::sub(load_some(x + i, m), centre);
    return Simd::select(Simd::lanes_from(m), Simd::zero(), Simd::mul(v, v));
  });
  const F factor = Simd::set1(1.0f / __builtin_sqrtf(squares / count + eps));
  meet();
  for_lanes(n, [&](std::int64_t i, int m) {
    F v = Simd::mul(Simd::sub(load_some(x + i, m), centre), factor);
    if (gain) v = Simd::mul(v, load_some(gain + i, m));
    if (bias) v = Simd::add(v, load_some(bias + i, m));
    store_some(y + i, v, m);
  });
}

[[gnu::flatten]] ESPALIER_LANES inline void l2_norm(L2Form form, const float* x, float eps, float* y, std::int64_t n) {
  const float squares = sum_of_squares(x, n);
  const float size = form == L2Form::added ? __builtin_sqrtf(squares + eps) : __builtin_sqrtf(squares);
  const F factor = Simd::set1(1.0f / (form == L2Form::least && size < eps ? eps : size));
  meet();
  for_lanes(n, [&](std::int64_t i, int m) { store_some(y + i, Simd::mul(load_some(x + i, m), factor), m); });
}

[[gnu::flatten]] ESPALIER_LANES inline void softmax(const float* x, float* y, std::int64_t n) {
  const F lowest = Simd::set1(-__builtin_inff());
  const F top = fold_row(
      n, lowest, [](F a, F b) { return Simd::max(a, b); },
      [&](std::int64_t i, int m) { return Simd::select(Simd::lanes_from(m), lowest, load_some(x + i, m)); });
  const F most = Simd::set1(Simd::reduce_max(top));
  meet();
  for_lanes(n, [&](std::int64_t i, int m) { store_some(y + i, exp(Simd::sub(load_some(x + i, m), most)), m); });
  meet();
  const F sum = Simd::set1(sum_row(n, [&](std::int64_t i, int m) { return load_some(y + i, m); }));
  meet();
  for_lanes(n, [&](std::int64_t i, int m) { store_some(y + i, Simd::div(load_some(y + i, m), sum), m); });
}

// One group; act is what the gate goes through behind the norm.
template <class Act>
ESPALIER_LANES inline void norm_then_gate(const float* x, const float* z, const float* gain, float factor, float* y,
                                          std::int64_t n, Act act) {
  meet();
  for_lanes(n, [&](std::int64_t i, int m) {
    F v = Simd::mul(load_some(x + i, m), Simd::set1(factor));
    if (gain) v = Simd::mul(v, load_some(gain + i, m));
    store_some(y + i, act(v, load_some(z + i, m)), m);
  });
}

ESPALIER_LANES inline float rms_factor(const float* x, float eps, std::int64_t n) {
  return 1.0f / __builtin_sqrtf(sum_of_squares(x, n) / static_cast<float>(n) + eps);
}

[[gnu::flatten]] ESPALIER_LANES inline void gated_norm(const GatedNormTask& t) {
  for (std::int64_t g = 0; g < t.groups; ++g) {
    const float *x = t.x + g * t.group, *z = t.z + g * t.group, *gain = t.gain ? t.gain + g * t.gain_stride : nullptr;
    float* y = t.y + g * t.group;
    switch (t.form) {
      case GatedNormForm::norm_then_silu:
        norm_then_gate(x, z, gain, rms_factor(x, t.eps, t.group), y, t.group,
                       [](F v, F gate) { return Simd::mul(v, silu(gate)); });
        break;
      case GatedNormForm::norm_then_sigmoid:
        norm_then_gate(x, z, gain, rms_factor(x, t.eps, t.group), y, t.group,
                       [](F v, F gate) { return Simd::mul(v, sigmoid(gate)); });
        break;
      case GatedNormForm::silu_then_norm:
        for_lanes(t.group, [&](std::int64_t i, int m) {
          store_some(y + i, Simd::mul(load_some(x + i, m), silu(load_some(z + i, m))), m);
        });
        meet();
        norm_then_gate(y, y, gain, rms_factor(y, t.eps, t.group), y, t.group, [](F v, F) { return v; });
        break;
    }
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA::function
