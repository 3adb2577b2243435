// timing.h: the best pass over a piece of work, and inputs for it. Units: seconds. Threads: the work's.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <random>
#include <vector>

#include "kernels/random_floats.h"

namespace espalier::bench {

// The best of three passes, and of as many more as `budget` lasts for.
template <class Pass>
double best_seconds(double budget, const Pass& pass) {
  using Steady = std::chrono::steady_clock;
  const auto since = [](Steady::time_point start) {
    return std::chrono::duration<double>(Steady::now() - start).count();
  };
  constexpr int kLeastPasses = 3;
  double best = std::numeric_limits<double>::infinity();
  const auto begin = Steady::now();
  for (int i = 0; i < kLeastPasses || since(begin) < budget; ++i) {
    const auto start = Steady::now();
    pass();
    best = std::min(best, since(start));
  }
  return best;
}

inline std::vector<float> random_rows(std::int64_t count) {
  std::mt19937_64 rng(1);
  return random_floats(rng, static_cast<std::size_t>(count));
}

}  // namespace espalier::bench
