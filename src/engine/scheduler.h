// scheduler.h: which tokens the next step computes. Pure functions over plain numbers, so that tests need ten lines and
// a simulator can replay them.
//
// A step has a budget of prompt tokens; every decoding sequence gets its one token first, then prompts that are under
// way go on, then waiting requests are admitted in policy order while memory lasts. Source: SGLang's scheduler
// (new-token ratio, longest prefix match), with several chunks in one step and ageing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace espalier {

enum class SchedulePolicy { lpm, fcfs };

struct WaitingView {
  std::uint64_t arrival;
  int matched;  // tokens of its longest cached prefix
  int steps_passed_over;
};

// Indices of `waiting` in the order in which they should be admitted. A request that was passed over `ageing_bound`
// times goes first, whatever the policy.
std::vector<int> admission_order(SchedulePolicy policy, std::span<const WaitingView> waiting);
inline constexpr int kAgeingBound = 64;

// Tokens that each running sequence computes in this step: all that decode (one token to go), then prompts in order of
// arrival while `prompt_budget` lasts. `to_compute` in order of arrival.
std::vector<int> running_chunks(std::span<const int> to_compute, int prompt_budget);

// How much of a request's allowed output it is expected to use, learnt from what happens: falls step by step while
// nothing goes wrong, rises to what was seen after the pool ran out.
class NewTokenRatio {
 public:
  explicit NewTokenRatio(double conservativeness);
  double value() const { return ratio_; }
  void step() { ratio_ = ratio_ > floor_ + decay_ ? ratio_ - decay_ : floor_; }
  void retracted(std::int64_t generated, std::int64_t allowed, int sequences);

 private:
  double start_, floor_, decay_, ratio_;
};

// Expected further tokens of one sequence, at least 1.
int expected_output(int remaining_output, double ratio);

// Which of the running sequences to give up when the pool is full: least generated, then longest prompt, then latest.
struct RunningView {
  std::uint64_t arrival;
  int generated, prompt;
};
int retraction_victim(std::span<const RunningView> running);

}  // namespace espalier
