// random_floats.h: inputs of the kernels' tests and benchmarks: n values, normally distributed around 0.
#pragma once

#include <random>
#include <vector>

namespace espalier {

inline std::vector<float> random_floats(std::mt19937_64& rng, std::size_t n, float spread = 1.0f) {
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> out(n);
  for (float& v : out) v = normal(rng);
  return out;
}

}  // namespace espalier
