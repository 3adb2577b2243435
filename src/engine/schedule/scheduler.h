// scheduler.h: which tokens the next step computes. Pure functions over plain numbers, so that tests need ten lines and
// a simulator can replay them.
//
// A step has a budget of prompt tokens; every decoding sequence gets its one token first, then prompts that are under
// way go on, then waiting requests are admitted in policy order while memory lasts.
// Source: SGLang's scheduler (new-token ratio, longest prefix match), with several chunks in one step and ageing.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "engine/schedule/fair_share.h"

namespace espalier {

// In which order waiting requests are admitted, as --schedule-policy names it.
enum class SchedulePolicy {
  lpm,         // longest cached prefix first
  dfs_weight,  // branches of the tree one after the other, those with most waiting requests first
  fcfs,        // by arrival
  lof,         // longest allowed output first
  priority,    // larger priority first
  random,      // a fixed shuffle
};

// What the order of admission depends on, of one request that waits.
struct WaitingView {
  std::uint64_t arrival = 0;
  int matched = 0;  // tokens of its longest cached prefix
  int branch = 0;   // place of its node in the walk that dfs_weight makes (branch_order.h)
  int output = 0;   // tokens it may generate
  int priority = 0;
  bool background = false;    // only when nothing else waits
  Turn turn = {};             // under fair sharing: the quanta that its tenant was served (fair_share.h)
  int steps_passed_over = 0;  // planned steps in which a later arrival was admitted instead
};

// The order in which waiting requests should be admitted, found one by one: O(n) to begin, O(log n) each. A request
// that was passed over kAgeingBound times goes first, whatever the policy: it waits at most that many steps longer than
// it would have by arrival. Under fair sharing it goes before its tenant's others; turns see to the rest.
inline constexpr int kAgeingBound = 64;
// The waiting requests from first to last by a policy, sorted only as far as they are asked for.
class AdmissionOrder {
 public:
  AdmissionOrder(SchedulePolicy policy, std::span<const WaitingView> waiting);
  int next();  // index into `waiting`; -1 when all were given

 private:
  struct Rank {
    bool background;
    Turn turn;
    bool ordinary;  // not aged
    std::int64_t key;
    std::uint64_t arrival;
    int index;
    auto tie() const { return std::tie(background, turn, ordinary, key, arrival); }
  };
  std::vector<Rank> heap_;
};

// Tokens that each running sequence computes in this step: those that speak (one token to go, or a few that a
// constraint forced), then prompts in order of arrival while `prompt_budget` lasts. `running` in order of arrival.
inline constexpr int kMostJumped = 128;  // tokens
// What a running sequence still has to compute in this step, for sharing out its budget.
struct RunningNeed {
  int to_compute;
  bool speaks = false;  // has said something already
};
std::vector<int> running_chunks(std::span<const RunningNeed> running, int prompt_budget);

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

// Which of the running sequences to give up when the pool is full: background work first, then the lowest priority,
// then the cheapest, which is the one with fewest tokens to compute again; of equals the latest.
struct RunningView {
  std::uint64_t arrival;
  int private_tokens;  // that no other running sequence shares: what it frees, and must compute again
  int priority = 0;
  bool background = false;
};
int retraction_victim(std::span<const RunningView> running);

}  // namespace espalier
