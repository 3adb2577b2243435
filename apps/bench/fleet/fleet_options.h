// fleet_options.h: the flags of `bench sim` that make a fleet of it: servers, routers, links, and a day's load.
// Threads: values. Fails: check() names the flag.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/fleet/day.h"
#include "bench/fleet/machines.h"

namespace espalier::bench {

struct FleetOptions {
  std::string machine;
  std::vector<int> replicas = {1};
  std::vector<std::string> routers = {"cache_aware"};
  RouterOptions router;  // all but its policy and assign_least
  std::string assignment = "random";
  int ranks = 1;
  double split = RankGroup::kSplit;
  std::string link = "inf", peers = "inf";
  std::vector<std::string> remotes = {"none"};
  double remote_capacity_gb = 64;
  int prompt_servers = 0;
  double token_bytes = 0;  // 0: the machine's

  double requests_per_day = 0;
  bool each_replica = false;
  DaySettings day;  // windows, levels, sessions
  double replica_cost = 0;
  std::string plot;

  // Derived by check().
  std::vector<RouterPolicy> policies;
  Fleet::Settings fleet;  // all but the server's scheduler, replicas, the router's policy and the remote tier
  std::vector<std::optional<RemoteTier::Settings>> tiers;
  const Machine* of_machine = nullptr;

  bool is_fleet() const { return replicas != std::vector<int>{1} || prompt_servers > 0 || tiers.front(); }
};

void add_fleet_flags(CLI::App& app, FleetOptions& options);
Result<> check(FleetOptions& options);

}  // namespace espalier::bench
