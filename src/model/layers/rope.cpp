#include "model/layers/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace espalier {
namespace {

std::vector<double> plain_frequencies(double theta, int dims) {
  std::vector<double> out;
  for (int i = 0; i < dims; i += 2) out.push_back(1.0 / std::pow(theta, static_cast<double>(i) / dims));
  return out;
}

// Long wavelengths are stretched by the factor, short ones kept, those between blended.
void scale(const Llama3Scaling& s, std::vector<double>& frequencies) {
  const double original = static_cast<double>(s.original_positions);
  const double low = original / s.low_freq_factor, high = original / s.high_freq_factor;
  for (double& f : frequencies) {
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength < high) continue;
    if (wavelength > low) {
      f /= s.factor;
      continue;
    }
    const double blend = (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    f = (1 - blend) * f / s.factor + blend * f;
  }
}

void scale(const LinearScaling& s, std::vector<double>& frequencies) {
  for (double& f : frequencies) f /= s.factor;
}

double yarn_magnitude(double factor, double scale = 1.0) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

// Dimensions that turn often keep their frequency, those that turn rarely are stretched, a ramp lies between.
void scale(const YarnScaling& s, double theta, int dims, std::vector<double>& frequencies) {
  auto dimension_of = [&](double turns) {
    return dims * std::log(static_cast<double>(s.original_positions) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = dimension_of(s.beta_fast), high = dimension_of(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / s.factor * ramp + frequencies[i] * (1 - ramp);
  }
}

float magnitude(const YarnScaling& s) {
  if (s.attention_factor) return static_cast<float>(*s.attention_factor);
  if (s.mscale && s.mscale_all_dim)
    return static_cast<float>(yarn_magnitude(s.factor, *s.mscale) / yarn_magnitude(s.factor, *s.mscale_all_dim));
  return static_cast<float>(yarn_magnitude(s.factor));
}

}  // namespace

bool can_compute(const RopeScaling& scaling) {
  return !std::holds_alternative<DynamicScaling>(scaling) && !std::holds_alternative<LongRopeScaling>(scaling);
}

RopeSpec rope(const ModelConfig& c) {
  RopeSpec spec;
  spec.dims = c.rope_dims;
  spec.factors_in_file = true;
  std::vector<double> frequencies = plain_frequencies(c.rope_theta, c.rope_dims);
  if (const auto* s = std::get_if<Llama3Scaling>(&c.rope_scaling)) scale(*s, frequencies);
  if (const auto* s = std::get_if<LinearScaling>(&c.rope_scaling)) scale(*s, frequencies);
  if (const auto* s = std::get_if<YarnScaling>(&c.rope_scaling)) {
    scale(*s, c.rope_theta, c.rope_dims, frequencies);
    spec.magnitude = magnitude(*s);
  }
  for (double f : frequencies) spec.inverse_frequency.push_back(static_cast<float>(f));
  return spec;
}

}  // namespace espalier
