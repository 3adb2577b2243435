// plain/functions.h: activations, gates, norms and rotations as the plainest loops in double precision, the judges of
// kernels/cpu/functions.h in tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "kernels/cpu/functions.h"

namespace espalier::plain {

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
inline double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

inline double xielu(const Activation& a, double x) {
  const double line = static_cast<double>(a.linear) * x;
  if (x > 0) return static_cast<double>(a.positive) * x * x + line;
  return (std::expm1(std::min(x, static_cast<double>(a.least))) - x) * static_cast<double>(a.negative) + line;
}

inline double activation(const Activation& a, double x) {
  switch (a.kind) {
    case ActivationKind::identity:
      return x;
    case ActivationKind::silu:
      return x * sigmoid(static_cast<double>(a.slope) * x);
    case ActivationKind::gelu_quick:
      return x * sigmoid(1.702 * x);
    case ActivationKind::gelu_tanh:
      // (1 + tanh(u)) / 2 without its cancellation
      return x * sigmoid(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
    case ActivationKind::gelu_erf:
      return x * std::erfc(-x / std::numbers::sqrt2) / 2;
    case ActivationKind::relu:
      return std::max(x, 0.0);
    case ActivationKind::relu2:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case ActivationKind::sigmoid:
      return sigmoid(x);
    case ActivationKind::log_sigmoid:
      return -softplus(-x);
    case ActivationKind::tanh:
      return std::tanh(x);
    case ActivationKind::softplus:
      return softplus(x);
    case ActivationKind::sqrt_softplus:
      return std::sqrt(softplus(x));
    case ActivationKind::exp:
      return std::exp(x);
    case ActivationKind::minus_exp:
      return -std::exp(x);
    case ActivationKind::elu:
      return x > 0 ? x : static_cast<double>(a.negative) * std::expm1(x);
    case ActivationKind::mish:
      return x * std::tanh(softplus(x));
    case ActivationKind::xielu:
      return xielu(a, x);
  }
  return 0;
}

inline double gate(const GateForm& form, double gate, double up) {
  const double limit = static_cast<double>(form.up_limit), most = static_cast<double>(form.gate_limit);
  return (std::clamp(up, -limit, limit) + static_cast<double>(form.up_offset)) *
         activation(form.activation, std::min(gate, most));
}

inline double sum_of_squares(std::span<const float> x, double centre = 0) {
  double sum = 0;
  for (float v : x) sum += (static_cast<double>(v) - centre) * (static_cast<double>(v) - centre);
  return sum;
}

// gain and bias may be empty
inline std::vector<double> layer_norm(std::span<const float> x, std::span<const float> gain,
                                      std::span<const float> bias, float eps) {
  const auto n = static_cast<double>(x.size());
  double mean = 0;
  for (float v : x) mean += static_cast<double>(v) / n;
  const double factor = 1 / std::sqrt(sum_of_squares(x, mean) / n + static_cast<double>(eps));
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i)
    y.push_back((static_cast<double>(x[i]) - mean) * factor * (gain.empty() ? 1 : static_cast<double>(gain[i])) +
                (bias.empty() ? 0 : static_cast<double>(bias[i])));
  return y;
}

inline std::vector<double> l2_norm(L2Form form, std::span<const float> x, float eps) {
  const double squares = sum_of_squares(x), least = static_cast<double>(eps);
  const double size = form == L2Form::added ? std::sqrt(squares + least) : std::max(std::sqrt(squares), least);
  std::vector<double> y;
  for (float v : x) y.push_back(static_cast<double>(v) / size);
  return y;
}

inline std::vector<double> gated_norm(const GatedNormTask& t) {
  std::vector<double> y(static_cast<std::size_t>(t.groups * t.group));
  for (std::int64_t g = 0; g < t.groups; ++g) {
    const auto value = [&](std::int64_t i) {  // what is normed
      const double x = static_cast<double>(t.x[g * t.group + i]), z = static_cast<double>(t.z[g * t.group + i]);
      return t.form == GatedNormForm::silu_then_norm ? x * z * sigmoid(z) : x;
    };
    double squares = 0;
    for (std::int64_t i = 0; i < t.group; ++i) squares += value(i) * value(i);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(t.group) + static_cast<double>(t.eps));
    for (std::int64_t i = 0; i < t.group; ++i) {
      const double z = static_cast<double>(t.z[g * t.group + i]);
      double v = value(i) * factor * (t.gain ? static_cast<double>(t.gain[g * t.gain_stride + i]) : 1);
      if (t.form == GatedNormForm::norm_then_silu) v *= z * sigmoid(z);
      if (t.form == GatedNormForm::norm_then_sigmoid) v *= sigmoid(z);
      y[static_cast<std::size_t>(g * t.group + i)] = v;
    }
  }
  return y;
}

inline std::vector<double> softmax(std::span<const float> x) {
  const auto top = static_cast<double>(*std::max_element(x.begin(), x.end()));
  double sum = 0;
  for (float v : x) sum += std::exp(static_cast<double>(v) - top);
  std::vector<double> y;
  for (float v : x) y.push_back(std::exp(static_cast<double>(v) - top) / sum);
  return y;
}

inline double decay(const DecayTask& t, std::int64_t at) {
  const double x = static_cast<double>(t.x[at]) + (t.bias ? static_cast<double>(t.bias[at]) : 0);
  const double rate = static_cast<double>(t.rate[at / t.per_head]);
  switch (t.form) {
    case DecayForm::softplus:
      return std::exp(-rate * softplus(x));
    case DecayForm::bounded:
      return std::exp(static_cast<double>(t.bound) * sigmoid(rate * x));
    case DecayForm::step:
      return std::exp(-rate * x);
  }
  return 0;
}

inline std::vector<double> rotate_pairs(std::span<const float> head, std::span<const float> cosines,
                                        std::span<const float> sines) {
  std::vector<double> y;
  for (std::size_t i = 0; 2 * i < head.size(); ++i) {
    const double a = static_cast<double>(head[2 * i]), b = static_cast<double>(head[2 * i + 1]);
    const double c = static_cast<double>(cosines[i]), s = static_cast<double>(sines[i]);
    y.push_back(a * c - b * s);
    y.push_back(b * c + a * s);
  }
  return y;
}

}  // namespace espalier::plain
