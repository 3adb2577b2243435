#include "bench/load/arrivals.h"

#include <algorithm>
#include <cmath>

#include "bench/load/random.h"

namespace espalier::bench {
namespace {

double rate_at(const ArrivalPlan& plan, std::size_t request, std::size_t count) {
  if (!plan.ramp) return plan.rate;
  const double done = static_cast<double>(request) / static_cast<double>(std::max<std::size_t>(count - 1, 1));
  const auto& [start, end, exponential] = *plan.ramp;
  return exponential ? start * std::pow(end / start, done) : start + (end - start) * done;
}

}  // namespace

std::vector<double> arrival_times(std::size_t count, const ArrivalPlan& plan) {
  std::vector<double> times(count, 0.0);
  if (!plan.ramp && std::isinf(plan.rate)) return times;
  Random random(derived_seed(plan.seed, 0xa221));  // not the stream that draws the prompts
  for (std::size_t i = 1; i < count; ++i) {
    const double gap =
        plan.burstiness == 1 ? random.exponential() : random.gamma(plan.burstiness) / plan.burstiness;  // mean 1
    times[i] = times[i - 1] + gap / rate_at(plan, i, count);
  }
  return times;
}

}  // namespace espalier::bench
