// planning.h: what the scheduler itself costs on this machine, with 64 sequences running and many requests waiting.
// Units:   seconds of this machine's processor, unlike everything else in bench/sim. Threads: one. Fails: never.
#pragma once

#include <string>

#include "bench/load/statistics.h"
#include "engine/step/engine_core.h"

namespace espalier::bench {

struct PlanningCosts {
  int waiting = 0;        // requests, to begin with
  double first_plan = 0;  // nothing of them is known yet
  Summary plan;           // of later steps, in which some end and others are admitted
  Summary step;           // all of the scheduler's work in a step: plan, rows, commit
};

PlanningCosts measure_planning(SchedulePolicy policy, EvictionKind eviction, int waiting, int running);

}  // namespace espalier::bench
