// conductor.h: runs a workload against a transport: starts items when they are due and there is room, until all ended.
//
// Units:   seconds on the transport's clock.
// Threads: one.
// Fails:   never; items that failed are in the result. An interrupted run ends at once with what is done by then.
#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "bench/load/arrivals.h"
#include "bench/load/caller.h"
#include "bench/workload/program_run.h"
#include "bench/workload/workload.h"

namespace espalier::bench {

struct Pace {
  ArrivalPlan arrivals;
  std::size_t max_concurrency = std::numeric_limits<std::size_t>::max();  // items in flight
  bool recorded_arrivals = false;  // the items' own times, divided by the rate when there is one
  std::size_t items = 0;           // to start; beyond the workload's own they begin again. 0 = each once
};

struct Progress {
  std::size_t items = 0, started = 0, ended = 0;
  double seconds = 0;
};

struct RunHooks {
  std::function<void(const Progress&)> on_progress;  // a few times a second
  std::function<bool()> interrupted;
  bool keep_results = true;  // false: what calls and items gave is dropped, so that a long run stays small
};

struct RunResult {
  Journal journal;
  std::vector<ItemResult> items;  // empty when they were not to be kept
  std::size_t ended = 0;          // items
  double began = 0, finished = 0;
  bool interrupted = false;

  double seconds() const { return finished - began; }
};

RunResult conduct(const Workload& workload, Transport& transport, const CallPolicy& policy, const Pace& pace,
                  const RunHooks& hooks = {});

// How many of the items have an answer to check, and how many of those are right.
struct Accuracy {
  int checked = 0, right = 0;
};
Accuracy accuracy_of(const Workload& workload, const RunResult& result);

}  // namespace espalier::bench
