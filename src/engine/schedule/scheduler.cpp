#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <tuple>

namespace espalier {

namespace {

std::int64_t shuffled(std::uint64_t arrival) {
  std::uint64_t x = arrival * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  return static_cast<std::int64_t>((x ^ (x >> 27)) >> 1);
}

std::int64_t key_of(SchedulePolicy policy, const WaitingView& w) {
  switch (policy) {
    case SchedulePolicy::lpm:
      return -w.matched;
    case SchedulePolicy::dfs_weight:
      return w.branch;
    case SchedulePolicy::lof:
      return -w.output;
    case SchedulePolicy::priority:
      return -w.priority;
    case SchedulePolicy::random:
      return shuffled(w.arrival);
    case SchedulePolicy::fcfs:
      break;
  }
  return 0;
}

}  // namespace

AdmissionOrder::AdmissionOrder(SchedulePolicy policy, std::span<const WaitingView> waiting) {
  heap_.reserve(waiting.size());
  for (int i = 0; i < static_cast<int>(waiting.size()); ++i) {
    const WaitingView& w = waiting[static_cast<std::size_t>(i)];
    const bool aged = w.steps_passed_over >= kAgeingBound && !w.background;
    heap_.push_back({w.background, w.turn, !aged, aged ? 0 : key_of(policy, w), w.arrival, i});
  }
  std::make_heap(heap_.begin(), heap_.end(), [](const Rank& a, const Rank& b) { return a.tie() > b.tie(); });
}

int AdmissionOrder::next() {
  if (heap_.empty()) return -1;
  std::pop_heap(heap_.begin(), heap_.end(), [](const Rank& a, const Rank& b) { return a.tie() > b.tie(); });
  const int index = heap_.back().index;
  heap_.pop_back();
  return index;
}

std::vector<int> running_chunks(std::span<const RunningNeed> running, int prompt_budget) {
  std::vector<int> chunks(running.size());
  const auto take = [&](std::size_t i) {
    chunks[i] = std::min(running[i].to_compute, prompt_budget);
    prompt_budget -= chunks[i];
  };
  const auto jumped = [](const RunningNeed& r) { return r.speaks && r.to_compute <= kMostJumped; };
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (running[i].to_compute == 1)
      chunks[i] = 1;
    else if (jumped(running[i]))
      take(i);
  }
  for (std::size_t i = 0; i < running.size(); ++i)
    if (running[i].to_compute > 1 && !jumped(running[i])) take(i);
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
  ratio_ = std::clamp(seen, ratio_, 1.0);
}

int expected_output(int remaining_output, double ratio) {
  constexpr int kMostCounted = 4096;  // a huge max_new_tokens is rarely meant
  return std::max(1, static_cast<int>(std::min(remaining_output, kMostCounted) * ratio));
}

int retraction_victim(std::span<const RunningView> running) {
  const auto rank = [](const RunningView& r) {
    return std::tuple(!r.background, r.priority, r.private_tokens, -static_cast<std::int64_t>(r.arrival));
  };
  const auto cheapest =
      std::min_element(running.begin(), running.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return static_cast<int>(cheapest - running.begin());
}

}  // namespace espalier
