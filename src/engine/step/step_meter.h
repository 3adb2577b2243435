// step_meter.h: the clocks and counters of steps, and who learns from them: drafts, the disk tier, prompt budgets.
//
// Of each step, in this order: begin(), planned(), running(), ran(), committed(); of one with nothing to do, begin().
// Units: seconds, rows, tokens. Threads: the engine thread. Fails: never.
#pragma once

#include <cstdint>

#include "cache/disk/disk_prefixes.h"
#include "engine/draft/drafts.h"
#include "engine/draft/step_cost.h"
#include "engine/engine_metrics.h"
#include "engine/step/clock.h"
#include "engine/step/step.h"

namespace espalier {

// Takes the times and counts of each step.
class StepMeter {
 public:
  StepMeter(EngineMetrics& metrics, Drafts& drafts, const Now& now) : metrics_(metrics), drafts_(drafts), now_(now) {}

  void begin() { begin_ = now_(); }
  void planned(const StepPlan& plan);
  void running() { running_ = now_(); }
  void ran() { model_seconds_ = seconds_of(now_() - running_); }
  void committed(DiskPrefixes* disk);  // null: no disk tier

  std::uint64_t steps() const { return steps_; }
  double last_step() const { return last_step_; }  // seconds
  const StepCost& cost() const { return cost_; }   // of all steps, by rows

 private:
  EngineMetrics& metrics_;
  Drafts& drafts_;
  const Now& now_;
  Sequence::Clock::time_point begin_{}, start_{},
      running_{};  // of the step: of its planning, of the rest, of the model
  double model_seconds_ = 0, last_step_ = 0;
  int chunks_ = 0, rows_ = 0, decoding_rows_ = 0;
  std::uint64_t generated_before_ = 0, steps_ = 0;
  RunningRate generation_{1.0};
  StepCost cost_;
};

}  // namespace espalier
