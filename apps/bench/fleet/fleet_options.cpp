#include "bench/fleet/fleet_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace espalier::bench {
namespace {

constexpr const char* kGroup = "Fleet";

template <class T>
CLI::Option* option(CLI::App& app, const std::string& name, T& value, const std::string& help) {
  return app.add_option(name, value, help)->capture_default_str()->group(kGroup);
}

void add_router_flags(CLI::App& app, FleetOptions& o) {
  app.add_option("--router", o.routers,
                 fmt::format("which server gets a call, by the rules of sglang-router: {}; several make a row each",
                             fmt::join(kRouterPolicies, ", ")))
      ->delimiter(',')
      ->default_str("cache_aware")
      ->group(kGroup);
  RouterOptions& r = o.router;
  option(app, "--cache-threshold", r.cache_threshold, "share of a prompt above which cache_aware follows it")
      ->check(CLI::Range(0.0, 1.0));
  option(app, "--balance-abs-threshold", r.balance_abs, "calls that loads may be apart under cache_aware")
      ->check(CLI::NonNegativeNumber);
  option(app, "--balance-rel-threshold", r.balance_rel, "... and this factor")->check(CLI::NonNegativeNumber);
  option(app, "--eviction-interval-secs", r.eviction_interval, "how often cache_aware's tree is cut; 0: never")
      ->check(CLI::NonNegativeNumber);
  option(app, "--max-tree-tokens", r.tree_tokens, "tokens of a server in that tree (the router counts characters)")
      ->check(CLI::PositiveNumber);
  app.add_flag("--smallest-tree", r.smallest_tree,
               "below the threshold cache_aware takes the server with least in its tree, as early versions did")
      ->group(kGroup);
  option(app, "--prefix-token-count", r.prefix_tokens, "tokens that prefix_hash looks at")->check(CLI::PositiveNumber);
  option(app, "--assignment-mode", o.assignment, "where manual sends a session first: random, or min_load")
      ->check(CLI::IsMember({"random", "min_load"}));
  option(app, "--max-idle-secs", r.max_idle, "after which manual forgets a session")->check(CLI::NonNegativeNumber);
  option(app, "--bucket-adjust-interval-secs", r.bucket_interval, "how often bucket looks at its ranges of lengths")
      ->check(CLI::PositiveNumber);
  option(app, "--load-factor", r.load_factor, "of the mean load, above which prefix_hash goes elsewhere")
      ->check(CLI::Range(1.0, 1e6));
}

void add_link_flags(CLI::App& app, FleetOptions& o) {
  option(app, "--ranks", o.ranks, "that compute one server's steps together, by gathers")->check(CLI::Range(1, 1024));
  option(app, "--link", o.link, "between ranks: GB/s,us (10 GbE: 1.17,30; inside a machine: 6,3)");
  option(app, "--split-share", o.split, "share of a step's time that ranks share out")->check(CLI::Range(0.0, 1.0));
  app.add_option(
         "--remote-tier", o.remotes,
         "link to a store of prefixes that all servers share: GB/s,us, or none; of a day several, one flag each")
      ->default_str("none")
      ->group(kGroup);
  option(app, "--remote-capacity", o.remote_capacity_gb, "GB that it holds")->check(CLI::PositiveNumber);
  option(app, "--prefill-replicas", o.prompt_servers, "servers that compute prompts for the --replicas, which answer")
      ->check(CLI::Range(0, 100'000));
  option(app, "--peer-link", o.peers, "of each of these to the others: GB/s,us");
  option(app, "--token-bytes", o.token_bytes, "keys and values of a token, for links; 0: the machine's")
      ->check(CLI::NonNegativeNumber);
}

void add_day_flags(CLI::App& app, FleetOptions& o) {
  option(app, "--requests-per-day", o.requests_per_day,
         "instead of a data set: sessions of several turns, so many requests a day; needs no files")
      ->check(CLI::PositiveNumber)
      ->default_str("none");
  app.add_flag("--each-replica", o.each_replica, "... of every server of --replicas, instead of all together")
      ->group(kGroup);
  DaySettings& d = o.day;
  option(app, "--swing", d.swing, "of the day's load around its mean: 0.5 is from half to one and a half")
      ->check(CLI::Range(0.0, 1.0));
  option(app, "--levels", d.levels, "of load at which a window is simulated")->check(CLI::Range(1, 96));
  option(app, "--warm-up", d.warm_up, "simulated seconds before each window")->check(CLI::NonNegativeNumber);
  option(app, "--window", d.window, "simulated seconds that count")->check(CLI::PositiveNumber);
  option(app, "--jobs", d.jobs, "windows that are simulated side by side")->check(CLI::Range(1, 256));
  SessionShape& s = d.sessions;
  option(app, "--apps", s.apps, "system prompts that sessions begin with")->check(CLI::Range(1, 10'000'000));
  option(app, "--app-skew", s.app_skew, "the n-th is asked 1 / n^skew as often as the first")
      ->check(CLI::Range(0.0, 5.0));
  option(app, "--app-tokens", s.app_tokens, "of a system prompt")->check(CLI::Range(0, 1'000'000));
  option(app, "--turns", s.turns, "of a session, in the mean")->check(CLI::Range(1.0, 1e6));
  option(app, "--question-tokens", s.question_tokens, "of a turn, in the mean")->check(CLI::Range(1.0, 1e6));
  option(app, "--answer-tokens", s.answer_tokens, "of a turn, in the mean")->check(CLI::Range(1.0, 1e6));
  option(app, "--pause", s.pause, "seconds from an answer to the next turn, in the mean")
      ->check(CLI::NonNegativeNumber);
  option(app, "--longest-session", s.longest, "tokens at which a session ends")->check(CLI::Range(16, 10'000'000));
  option(app, "--replica-cost", o.replica_cost, "of a server for an hour, in any currency; 0: costs are not told")
      ->check(CLI::NonNegativeNumber);
}

Result<Link> link_of(const std::string& text, const char* flag) {
  if (text == "inf") return Link();
  return Link::parse(text, flag);
}

Result<> check_links(FleetOptions& o) {
  ESP_TRY(o.fleet.server.ranks.link, link_of(o.link, "link"));
  ESP_TRY(o.fleet.peers, link_of(o.peers, "peer-link"));
  o.fleet.server.ranks.ranks = o.ranks;
  o.fleet.server.ranks.split = o.split;
  o.fleet.server.ranks.gathers = o.of_machine->gathers;
  o.fleet.token_bytes = o.token_bytes > 0 ? o.token_bytes : o.of_machine->token_bytes;
  for (const std::string& remote : o.remotes) {
    o.tiers.emplace_back();
    if (remote == "none") continue;
    if (o.prompt_servers > 0)
      return bad_request("--remote-tier and --prefill-replicas cannot be simulated together: leave one out",
                         "remote-tier");
    ESP_TRY(const Link link, Link::parse(remote, "remote-tier"));
    o.tiers.back() = RemoteTier::Settings{link, 1e9 * o.remote_capacity_gb, kRemoteBlock * o.fleet.token_bytes};
  }
  if (o.tiers.size() > 1 && o.requests_per_day <= 0)
    return bad_request("--remote-tier takes one value here; run again for another", "remote-tier");
  return success();
}

}  // namespace

void add_fleet_flags(CLI::App& app, FleetOptions& o) {
  std::string known;
  for (const Machine& m : machines()) known += fmt::format("{}{} ({})", known.empty() ? "" : "; ", m.name, m.what);
  option(app, "--machine", o.machine, "whose steps are simulated where --cost and --measure are not given: " + known)
      ->default_str(std::string(machines().front().name));
  app.add_option("--replicas", o.replicas, "servers behind the router; several make a row each")
      ->delimiter(',')
      ->default_str("1")
      ->check(CLI::Range(1, 100'000))
      ->group(kGroup);
  add_router_flags(app, o);
  add_link_flags(app, o);
  add_day_flags(app, o);
  option(app, "--plot", o.plot, "draws hit rate, latency and cost of a day's rows (.svg)")->default_str("none");
}

Result<> check(FleetOptions& o) {
  ESP_TRY(o.of_machine, machine(o.machine.empty() ? std::string(machines().front().name) : o.machine));
  for (const std::string& name : o.routers) {
    const auto* const found = std::ranges::find(kRouterPolicies, name);
    if (found == std::end(kRouterPolicies))
      return bad_request(fmt::format("--router {} must be one of {}", name, fmt::join(kRouterPolicies, ", ")),
                         "router");
    o.policies.push_back(static_cast<RouterPolicy>(found - std::begin(kRouterPolicies)));
  }
  if (std::ranges::find(o.policies, RouterPolicy::bucket) != o.policies.end() && o.prompt_servers == 0)
    return bad_request("--router bucket chooses among servers that compute prompts: give --prefill-replicas, too",
                       "router");
  o.router.assign_least = o.assignment == "min_load";
  o.fleet.router = o.router;
  o.fleet.prompt_servers = o.prompt_servers;
  ESP_CHECK(check_links(o));
  if (!o.plot.empty() && !o.plot.ends_with(".svg"))
    return bad_request(fmt::format("--plot {} must end in .svg", o.plot), "plot");
  if (!o.plot.empty() && o.requests_per_day <= 0)
    return bad_request("--plot draws what --requests-per-day simulates: give that, too", "plot");
  if (o.each_replica && o.requests_per_day <= 0)
    return bad_request("--each-replica says whose --requests-per-day are: give these, too", "each-replica");
  if (o.requests_per_day <= 0 && o.replica_cost > 0)
    return bad_request("--replica-cost is told of a day: give --requests-per-day, too", "replica-cost");
  return success();
}

}  // namespace espalier::bench
