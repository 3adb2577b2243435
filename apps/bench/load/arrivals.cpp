#include "bench/load/arrivals.h"

#include <cmath>

#include "bench/load/random.h"

namespace espalier::bench {

std::vector<double> arrival_times(std::size_t count, const ArrivalPlan& plan) {
  std::vector<double> times(count, 0.0);
  if (std::isinf(plan.rate)) return times;
  Random random(derived_seed(plan.seed, 0xa221));  // not the stream that draws the prompts
  for (std::size_t i = 1; i < count; ++i) {
    const double gap =
        plan.burstiness == 1 ? random.exponential() : random.gamma(plan.burstiness) / plan.burstiness;  // mean 1
    times[i] = times[i - 1] + gap / plan.rate;
  }
  return times;
}

}  // namespace espalier::bench
