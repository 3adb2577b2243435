#include "engine/scheduler.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace espalier {

std::vector<int> admission_order(SchedulePolicy policy, std::span<const WaitingView> waiting) {
  std::vector<int> order(waiting.size());
  std::iota(order.begin(), order.end(), 0);
  auto rank = [&](int index) {
    const WaitingView& w = waiting[static_cast<std::size_t>(index)];
    const bool aged = w.steps_passed_over >= kAgeingBound;
    const int matched = policy == SchedulePolicy::lpm && !aged ? w.matched : 0;
    return std::tuple(!aged, -matched, w.arrival);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) < rank(b); });
  return order;
}

std::vector<int> running_chunks(std::span<const int> to_compute, int prompt_budget) {
  std::vector<int> chunks(to_compute.size());
  for (std::size_t i = 0; i < to_compute.size(); ++i) {
    if (to_compute[i] == 1) {
      chunks[i] = 1;
      continue;
    }
    chunks[i] = std::min(to_compute[i], prompt_budget);
    prompt_budget -= chunks[i];
  }
  return chunks;
}

NewTokenRatio::NewTokenRatio(double conservativeness)
    : start_(std::min(0.7 * conservativeness, 1.0)),
      floor_(start_ * 0.14),
      decay_((start_ - floor_) / 600.0),
      ratio_(start_) {}

void NewTokenRatio::retracted(std::int64_t generated, std::int64_t allowed, int sequences) {
  constexpr int kStepsAhead = 20;
  const double seen = static_cast<double>(generated + static_cast<std::int64_t>(kStepsAhead) * sequences) /
                      static_cast<double>(allowed + 1);
  ratio_ = std::min(seen, 1.0);
}

int expected_output(int remaining_output, double ratio) {
  constexpr int kMostCounted = 4096;  // a huge max_new_tokens is rarely meant
  return std::max(1, static_cast<int>(std::min(remaining_output, kMostCounted) * ratio));
}

int retraction_victim(std::span<const RunningView> running) {
  auto worse = [](const RunningView& a, const RunningView& b) {
    return std::tuple(a.generated, -a.prompt, -static_cast<std::int64_t>(a.arrival)) <
           std::tuple(b.generated, -b.prompt, -static_cast<std::int64_t>(b.arrival));
  };
  return static_cast<int>(std::min_element(running.begin(), running.end(), worse) - running.begin());
}

}  // namespace espalier
