// simulated_model.h: a model that says what it was told to and takes the time it was given, on a clock that only it
// moves.
// Units:   nanoseconds since the start of the simulation. Threads: one. Fails: never.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "bench/fleet/quantile_sketch.h"
#include "bench/fleet/rank_group.h"
#include "bench/sim/prompt_ids.h"
#include "bench/sim/step_times.h"
#include "engine/step/sequence.h"
#include "engine/step/step.h"

namespace espalier::bench {

class SimulatedClock {
 public:
  Sequence::Clock::time_point now() const { return Sequence::Clock::time_point(std::chrono::nanoseconds(now_)); }
  double seconds() const { return 1e-9 * static_cast<double>(now_); }
  void set(std::int64_t nanoseconds) { now_ = nanoseconds; }
  std::int64_t nanoseconds() const { return now_; }

 private:
  std::int64_t now_ = 1'000'000'000;  // not 0, which is "never" to a sequence
};

// A request, and what will be answered to each of its choices.
struct PlannedRequest : Request {
  PlannedRequest(Request request, int length) : Request(std::move(request)), answer_length(length) {}
  virtual ~PlannedRequest() = default;
  virtual TokenId answer(int choice, int position) const = 0;

  int answer_length;                    // tokens, the end token among them when it is shorter than allowed
  std::size_t call = 0;                 // whose it is
  mutable int said = 0;                 // tokens of the choice that has had most
  mutable std::int64_t last_token = 0;  // when its first choice had its last one; 0: none yet
};

// Where the time of steps goes, and what ranks tell each other.
struct StepShares {
  double base = 0, prompts = 0, decoding = 0, attention = 0, gathers = 0;  // seconds
  double gathered_bytes = 0;                                               // received, by each rank
  std::int64_t steps = 0;

  double seconds() const { return base + prompts + decoding + attention + gathers; }
  void add(const StepShares& other);
};

// What is collected of the steps that end in [from, until).
struct StepWatch {
  std::int64_t from = 0, until = std::numeric_limits<std::int64_t>::max();
  StepShares shares;
  QuantileSketch gaps;  // between the tokens of an output
};

class SimulatedModel final : public StepRunner {
 public:
  SimulatedModel(SimulatedClock& clock, const StepTimes& times, const RankGroup& ranks, StepWatch& watch)
      : clock_(clock), times_(times), ranks_(ranks), watch_(watch) {}

  std::vector<espalier::Outcome> run(const StepPlan& plan) override;
  void copy(const ExtentList&, const ExtentList&) override {}

  bool ends_call() const { return !ended_.empty(); }  // a choice ended since the last asking of
  // the calls of which one did.
  std::vector<std::size_t> take_ended() { return std::exchange(ended_, {}); }
  // What no step takes less than. going_on: all sequences that had a token in the last step have one in it, too.
  double least_seconds(bool going_on) const;

 private:
  StepShares shares_of(const StepPlan& plan) const;
  void add_gaps(std::int64_t nanoseconds, int count);

  SimulatedClock& clock_;
  const StepTimes times_;
  const RankGroup ranks_;
  StepWatch& watch_;
  std::vector<std::size_t> ended_;
  StepWork decoding_;  // of the sequences that had a token in the last step, were they to decode at once
};

}  // namespace espalier::bench
