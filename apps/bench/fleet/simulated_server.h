// simulated_server.h: a server of which everything is real but the model and the time: scheduler, radix tree, slots.
//
// A step's outcome is known when it begins; others see it when it ends. What arrives in between waits for that end.
// Nobody looks at a server between two calls that come or end, so its steps need not be taken when their times come: they
// are taken later, one behind the other (catch_up()), while the server's memory is in this processor's cache.
// Units:   nanoseconds of simulated time, tokens. Threads: one. Fails: never.
#pragma once

#include <memory>
#include <vector>

#include "bench/sim/simulated_model.h"
#include "engine/step/engine_core.h"

namespace espalier::bench {

// One server of a fleet, and the calls that it has.
class SimulatedServer {
 public:
  struct Settings {
    CoreOptions core;
    int pool_tokens = 0;
    StepTimes times;
    RankGroup ranks;
  };
  using Call = std::shared_ptr<const PlannedRequest>;

  SimulatedServer(const Settings& settings, StepWatch& watch)
      : pool_tokens_(settings.pool_tokens),
        model_(clock_, settings.times, settings.ranks, watch),
        core_(settings.core, model_, settings.pool_tokens, metrics_, [this] { return clock_.now(); }) {}
  SimulatedServer(const SimulatedServer&) = delete;
  SimulatedServer& operator=(const SimulatedServer&) = delete;

  // It is there from `now` on, also when a step is under way that began before and ends later.
  void add(const Call& call, std::shared_ptr<StreamChannel> channel, std::int64_t now);
  // Begins a step; false: there is nothing to compute. Requires: none is under way.
  bool step(std::int64_t now);
  bool at_work() const { return at_work_; }                // a step is under way
  bool ends_call() const { return model_.ends_call(); }    // ... with which a choice of a call ends
  std::int64_t step_begin() const { return step_begin_; }  // of that step
  std::int64_t step_end() const { return clock_.nanoseconds(); }
  // Its end is there: the calls of which a choice ended with it.
  std::vector<std::size_t> end_step();
  // Steps that begin before that time, each at the end of the one before it; not beyond one that ends a call.
  void catch_up(std::int64_t before);
  // A call that is there, or this one, ends no sooner, if nothing else comes. Requires: a step is under way, which ends none.
  std::int64_t earliest_end() const;
  std::int64_t earliest_end(const PlannedRequest& call) const;
  double busy_seconds() const { return 1e-9 * static_cast<double>(busy_); }  // of all steps so far

  EngineCore& core() { return core_; }
  const EngineCore& core() const { return core_; }
  const EngineMetrics& metrics() const { return metrics_; }

 private:
  struct Open {  // a call that has not ended
    Call call;
    int choices;
  };
  std::int64_t after_steps(int count) const;

  const int pool_tokens_;
  SimulatedClock clock_;
  SimulatedModel model_;
  EngineMetrics metrics_;
  EngineCore core_;
  std::vector<Open> open_;        // calls that have not ended
  std::int64_t most_tokens_ = 0;  // that these can come to hold
  std::int64_t step_begin_ = 0, busy_ = 0;
  bool at_work_ = false;
};

}  // namespace espalier::bench
