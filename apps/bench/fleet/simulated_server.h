// simulated_server.h: a server of which everything is real but the model and the time: scheduler, radix tree, slots.
//
// A step's outcome is known when it begins; others see it when it ends. What arrives in between waits for that end.
// Units:   nanoseconds of simulated time, tokens. Threads: one. Fails: never.
#pragma once

#include <memory>
#include <vector>

#include "bench/sim/simulated_model.h"
#include "engine/step/engine_core.h"

namespace espalier::bench {

class SimulatedServer {
 public:
  struct Settings {
    CoreOptions core;
    int pool_tokens = 0;
    StepTimes times;
    RankGroup ranks;
  };

  SimulatedServer(const Settings& settings, StepWatch& watch)
      : model_(clock_, settings.times, settings.ranks, watch),
        core_(settings.core, model_, settings.pool_tokens, metrics_, [this] { return clock_.now(); }) {}
  SimulatedServer(const SimulatedServer&) = delete;
  SimulatedServer& operator=(const SimulatedServer&) = delete;

  // It is there from `now` on, also when a step is under way that began before and ends later.
  void add(const Arrival& arrival, std::int64_t now);
  // Begins a step; false: there is nothing to compute. Requires: none is under way.
  bool step(std::int64_t now);
  std::int64_t step_end() const { return clock_.nanoseconds(); }
  double busy_seconds() const { return 1e-9 * static_cast<double>(busy_); }  // of all steps so far
  std::vector<std::size_t> take_ended() { return model_.take_ended(); }  // calls of which a choice ended with the step

  EngineCore& core() { return core_; }
  const EngineCore& core() const { return core_; }
  const EngineMetrics& metrics() const { return metrics_; }

 private:
  SimulatedClock clock_;
  SimulatedModel model_;
  EngineMetrics metrics_;
  EngineCore core_;
  std::int64_t busy_ = 0;
};

}  // namespace espalier::bench
