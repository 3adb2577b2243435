// sim_options.h: flags of `bench sim` and what they mean.
// Threads: values. Fails: check() names the flag.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/fleet/fleet_options.h"
#include "bench/serving/load_options.h"
#include "bench/sim/simulation.h"

namespace espalier::bench {

struct SimOptions {
  LoadOptions load;
  FleetOptions fleet;
  std::vector<std::string> policies = {"lpm"}, evictions = {"lru"};
  std::vector<int> pool_tokens;
  std::vector<double> pool_shares;  // of the working set
  int max_running = 64, chunk = 512, tenants = 0;
  double target_itl_ms = 0, conservativeness = 1;
  bool fair_tenants = false, no_cache = false, shuffle = false;
  std::string cost, measure, model;
  int threads = 0;  // of --measure
  bool planning = false, json = false;
  int planning_waiting = 10'000;

  // Derived by check().
  struct Policy {
    std::string name;
    SchedulePolicy policy;
  };
  struct Eviction {
    std::string name;
    EvictionKind kind;
  };
  std::vector<Policy> schedule;
  std::vector<Eviction> evict;
  StepTimes times;
};

void add_sim_flags(CLI::App& app, SimOptions& options);
Result<> check(SimOptions& options);

}  // namespace espalier::bench
