// functions.h: the entries of kernels/cpu/functions.h that take each element by itself, and rotation.
//
// Flattened (all calls inlined): sixteen lanes passed to a function of their own would go through memory.
#pragma once

#include "kernels/cpu/generic/for_lanes.h"
#include "kernels/cpu/generic/function_values.h"
#include "kernels/cpu/generic/row_part.h"

namespace espalier::kernels::ESPALIER_ISA::function {

[[gnu::flatten]] ESPALIER_LANES inline void activate(const Activation& a, const float* x, float* y, std::int64_t n) {
  with_activation(
      a, [&](auto f) { for_lanes(n, [&](std::int64_t i, int m) { store_some(y + i, f(load_some(x + i, m)), m); }); });
}

[[gnu::flatten]] ESPALIER_LANES inline void gate(const GateForm& form, const float* gate, const float* up, float* y,
                                                 std::int64_t n) {
  const F offset = Simd::set1(form.up_offset);
  with_activation(form.activation, [&](auto f) {
    for_lanes(n, [&](std::int64_t i, int m) {
      const F open = f(at_most(form.gate_limit, load_some(gate + i, m)));
      const F kept = at_most(form.up_limit, at_least(-form.up_limit, load_some(up + i, m)));
      store_some(y + i, Simd::mul(Simd::add(kept, offset), open), m);
    });
  });
}

// y = f(element of x), and of further rows: f takes sixteen lanes of each.
template <class Value, class... Rows>
ESPALIER_LANES inline void map_rows(float* y, std::int64_t n, Value value, const Rows*... rows) {
  for_lanes(n, [&](std::int64_t i, int m) { store_some(y + i, value(load_some(rows + i, m)...), m); });
}

ESPALIER_LANES inline void scale(float a, const float* x, float* y, std::int64_t n) {
  map_rows(y, n, [&](F v) { return Simd::mul(Simd::set1(a), v); }, x);
}
ESPALIER_LANES inline void affine(float a, float c, const float* x, float* y, std::int64_t n) {
  map_rows(y, n, [&](F v) { return Simd::fma(Simd::set1(a), v, Simd::set1(c)); }, x);
}
ESPALIER_LANES inline void add(const float* x, const float* z, float* y, std::int64_t n) {
  map_rows(y, n, [](F v, F w) { return Simd::add(v, w); }, x, z);
}
ESPALIER_LANES inline void mul(const float* x, const float* z, float* y, std::int64_t n) {
  map_rows(y, n, [](F v, F w) { return Simd::mul(v, w); }, x, z);
}
ESPALIER_LANES inline void add_scaled(float a, const float* x, float* y, std::int64_t n) {
  map_rows(y, n, [&](F v, F sum) { return Simd::fma(Simd::set1(a), v, sum); }, x, static_cast<const float*>(y));
}
ESPALIER_LANES inline void add_product(const float* a, const float* x, float* y, std::int64_t n) {
  map_rows(y, n, [](F v, F w, F sum) { return Simd::fma(v, w, sum); }, a, x, static_cast<const float*>(y));
}
ESPALIER_LANES inline void blend(float a, const float* x, float b, float* y, std::int64_t n) {
  map_rows(
      y, n, [&](F v, F there) { return Simd::fma(Simd::set1(a), v, Simd::mul(Simd::set1(b), there)); }, x,
      static_cast<const float*>(y));
}
ESPALIER_LANES inline void interpolate(const float* a, const float* x, const float* z, float* y, std::int64_t n) {
  map_rows(y, n, [](F share, F v, F w) { return Simd::fma(share, Simd::sub(w, v), v); }, a, x, z);
}
ESPALIER_LANES inline void clamp(float least, float most, const float* x, float* y, std::int64_t n) {
  map_rows(y, n, [&](F v) { return at_most(most, at_least(least, v)); }, x);
}
[[gnu::flatten]] ESPALIER_LANES inline void soft_cap(float cap, const float* x, float* y, std::int64_t n) {
  const F inverse = Simd::set1(1.0f / cap);
  map_rows(y, n, [&](F v) { return Simd::mul(Simd::set1(cap), tanh(Simd::mul(v, inverse))); }, x);
}

[[gnu::flatten]] ESPALIER_LANES inline void time_step(const float* x, const float* bias, float least, float most,
                                                      float* y, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, int m) {
    F v = load_some(x + i, m);
    if (bias) v = Simd::add(v, load_some(bias + i, m));
    store_some(y + i, at_most(most, at_least(least, softplus(v))), m);
  });
}

// use(f), f being the decay as a function of x + bias and the rate.
template <class Use>
ESPALIER_LANES inline void with_decay(const DecayTask& t, Use use) {
  switch (t.form) {
    case DecayForm::softplus:
      return use([](F x, F rate) { return exp(negative(Simd::mul(rate, softplus(x)))); });
    case DecayForm::bounded:
      return use([&](F x, F rate) { return exp(Simd::mul(Simd::set1(t.bound), sigmoid(Simd::mul(rate, x)))); });
    case DecayForm::step:
      return use([](F x, F rate) { return exp(negative(Simd::mul(rate, x))); });
  }
}

[[gnu::flatten]] ESPALIER_LANES inline void decay(const DecayTask& t) {
  with_decay(t, [&](auto f) {
    const auto part = [&](std::int64_t at, int m, F rate) {
      F v = load_some(t.x + at, m);
      if (t.bias) v = Simd::add(v, load_some(t.bias + at, m));
      store_some(t.y + at, f(v, rate), m);
    };
    if (t.per_head == 1)
      return for_lanes(t.heads, [&](std::int64_t i, int m) { part(i, m, load_some(t.rate + i, m)); });
    for (std::int64_t head = 0; head < t.heads; ++head)
      for_lanes(t.per_head, [&](std::int64_t i, int m) { part(head * t.per_head + i, m, Simd::set1(t.rate[head])); });
  });
}

ESPALIER_LANES alignas(64) constexpr float kAlternate[16] = {-1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1};

ESPALIER_LANES inline void rotate_eight_pairs(float* pairs, const float* cosines, const float* sines) {
  const F x = Simd::load(pairs), s = Simd::mul(Simd::load_twice(sines), Simd::load(kAlternate));
  Simd::store(pairs, Simd::add(Simd::mul(x, Simd::load_twice(cosines)), Simd::mul(Simd::swap_pairs(x), s)));
}

ESPALIER_LANES inline void rotate_pairs(float* head, const float* cosines, const float* sines, int half) {
  int i = 0;
  for (; i + 8 <= half; i += 8) rotate_eight_pairs(head + 2 * i, cosines + i, sines + i);
  const auto left = static_cast<std::size_t>(half - i);
  if (left == 0) return;
  float pairs[16] = {}, c[8] = {}, s[8] = {};
  __builtin_memcpy(pairs, head + 2 * i, 2 * left * sizeof(float));
  __builtin_memcpy(c, cosines + i, left * sizeof(float));
  __builtin_memcpy(s, sines + i, left * sizeof(float));
  rotate_eight_pairs(pairs, c, s);
  __builtin_memcpy(head + 2 * i, pairs, 2 * left * sizeof(float));
}

}  // namespace espalier::kernels::ESPALIER_ISA::function
