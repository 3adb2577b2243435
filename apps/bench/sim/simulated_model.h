// simulated_model.h: a model that says what it was told to and takes the time it was given, on a clock that only it
// moves.
// Units:   nanoseconds since the start of the simulation. Threads: one. Fails: never.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

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
  PlannedRequest(Request request, std::uint64_t seed, int length, std::uint64_t round)
      : Request(std::move(request)), answer_seed(seed), answer_length(length), answer_round(round) {}

  std::uint64_t seed_of(int choice) const { return answer_seed + static_cast<std::uint64_t>(choice); }

  std::uint64_t answer_seed;
  int answer_length;  // tokens, the end token among them when it is shorter than allowed
  std::uint64_t answer_round;
  std::size_t call = 0;  // whose it is
};

class SimulatedModel final : public StepRunner {
 public:
  SimulatedModel(SimulatedClock& clock, const StepTimes& times, const Answers& answers)
      : clock_(clock), times_(times), answers_(answers) {}

  std::vector<espalier::Outcome> run(const StepPlan& plan) override;
  void copy(const ExtentList&, const ExtentList&) override {}

  // The calls of which a choice ended since the last asking.
  std::vector<std::size_t> take_ended() { return std::exchange(ended_, {}); }

 private:
  TokenId next_token(const Sequence& sequence) const;

  SimulatedClock& clock_;
  const StepTimes times_;
  const Answers& answers_;
  std::vector<std::size_t> ended_;
};

}  // namespace espalier::bench
