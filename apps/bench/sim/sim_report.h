// sim_report.h: a simulation's row: under which settings, and what came of it, as a line of a table and as JSON.
// Units:   seconds in reports, ms in JSON keys that say so. Threads: pure functions. Fails: never.
#pragma once

#include <optional>
#include <string>

#include "base/json/json.h"
#include "bench/sim/simulation.h"

namespace espalier::bench {

struct SimRow {
  std::string workload, policy, eviction;
  int pool_tokens = 0;
  std::int64_t working_set = 0;
  SimReport report;
  struct OfFleet {
    int replicas = 1;
    std::string router;
  };
  std::optional<OfFleet> fleet = std::nullopt;  // none: one server
};

std::string sim_heading(const SimWorkload& workload, const SimSettings& settings, std::size_t items,
                        const std::string& ids);
std::string sim_columns();
std::string sim_line(const SimRow& row);
Json sim_json(const SimRow& row);

}  // namespace espalier::bench
