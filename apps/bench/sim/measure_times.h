// measure_times.h: the coefficients of StepTimes, fitted to steps of a real model on this machine.
//
// The model runs prompts of several lengths and batches of several sizes through the real scheduler; every step's work
// and time (of one thread: its processor's) are one observation, and the fit has the least squared relative error with no coefficient below 0.
// Units:   seconds. Threads: one caller; a team of the engine's computes.
// Fails:   what opening a model fails with.
#pragma once

#include <vector>

#include "bench/sim/step_times.h"
#include "espalier/engine.h"

namespace espalier::bench {

struct ObservedStep {
  StepWork work;
  double seconds = 0;
};

struct MeasuredTimes {
  StepTimes times;
  double median_error = 0;  // relative, of the fit
  double step_of_64 = 0;    // seconds, median of the observed steps in which 64 sequences decode; 0 = none
  std::size_t steps = 0;
};

Result<MeasuredTimes> measure_times(const EngineOptions& options);
MeasuredTimes fit_times(const std::vector<ObservedStep>& steps);

}  // namespace espalier::bench
