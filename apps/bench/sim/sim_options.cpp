#include "bench/sim/sim_options.h"

#include <fmt/format.h>

#include "engine/engine_options.h"

namespace espalier::bench {
namespace {

template <class T>
CLI::Option* option(CLI::App& app, const std::string& name, T& value, const std::string& help) {
  return app.add_option(name, value, help)->capture_default_str();
}

}  // namespace

void add_sim_flags(CLI::App& app, SimOptions& o) {
  add_dataset_flags(app, o.load);
  add_pace_flags(app, o.load);
  app.add_flag("--shuffle", o.shuffle, "items in an order drawn from --seed instead of the file's");
  app.add_option("--policy,--schedule-policy", o.policies,
                 "lpm, dfs-weight, fcfs, lof, priority, random; several (lpm,fcfs) make a row each")
      ->delimiter(',')
      ->default_str("lpm");
  app.add_option("--eviction", o.evictions, "what leaves a full cache first: lru, lfu, cost; several make a row each")
      ->delimiter(',')
      ->default_str("lru");
  app.add_option("--pool-tokens", o.pool_tokens,
                 "slots of the token pool, one a token; default 262144; several make a row each")
      ->delimiter(',')
      ->check(CLI::Range(16, 1 << 29));
  app.add_option("--pool-share", o.pool_shares,
                 "the same as a share of the working set (distinct tokens of all prompts and answers), at least the "
                 "longest call")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  option(app, "--max-running-requests,--max-running", o.max_running, "sequences in one batch")
      ->check(CLI::Range(1, 4096));
  option(app, "--chunked-prefill-size", o.chunk, "prompt tokens computed in one step")->check(CLI::PositiveNumber);
  option(app, "--target-itl", o.target_itl_ms,
         "milliseconds between tokens that prompt chunks should leave possible; 0 = no target");
  option(app, "--schedule-conservativeness", o.conservativeness, "larger admits fewer requests at once");
  option(app, "--tenants", o.tenants, "items are dealt to so many tenants; 0 = none is named")
      ->check(CLI::Range(0, 4096));
  app.add_flag("--fair-tenants", o.fair_tenants, "tenants take turns by tokens computed");
  app.add_flag("--disable-radix-cache", o.no_cache, "nothing is shared or kept");
  app.add_option("--model", o.model,
                 "tokenizer of this model for texts; default: a word with its space is a token (its id a hash)");
  app.add_option("--cost", o.cost,
                 fmt::format("seconds of a step as BASE,PREFILL,DECODE,ATTENTION: base + prompt rows x prefill + "
                             "decoding rows x decode + (row, earlier token) pairs x attention; default {}, which is "
                             "SmolLM2-135M Q4_1 on 2 threads (AVX-512): 1,819 tok/s prompts, 204 tok/s alone, 60 ms "
                             "a step of 64",
                             StepTimes().text()));
  app.add_option("--measure", o.measure, "fit these four to a model on this machine first, and print them");
  option(app, "--threads", o.threads, "of --measure; 0: one a performance core")->check(CLI::Range(0, 4096));
  app.add_flag("--planning", o.planning,
               "instead: this machine's own time for planning, with --max-running-requests running and "
               "--planning-waiting waiting");
  option(app, "--planning-waiting", o.planning_waiting, "requests that wait under --planning")
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--json", o.json, "one JSON object a row instead of tables");
  add_fleet_flags(app, o.fleet);
}

Result<> check(SimOptions& o) {
  if (!o.planning && o.fleet.requests_per_day <= 0) ESP_CHECK(check(o.load));
  ESP_CHECK(check(o.fleet));
  for (const std::string& name : o.policies) {
    EngineOptions engine;
    engine.schedule_policy = name;
    auto chosen = choices_of(engine);
    if (!chosen.ok())
      return bad_request(
          fmt::format("--policy {} must be lpm, dfs-weight, fcfs, lof, priority or random (several: lpm,fcfs)", name),
          "policy");
    o.schedule.push_back({name, chosen->policy});
  }
  for (const std::string& name : o.evictions) {
    EngineOptions engine;
    engine.eviction = name;
    const auto chosen = choices_of(engine);
    if (!chosen.ok()) return bad_request(fmt::format("--eviction {} must be lru, lfu or cost", name), "eviction");
    o.evict.push_back({name, chosen->eviction});
  }
  if (!o.cost.empty() && !o.measure.empty())
    return bad_request("--cost and --measure both say what a step takes: leave one out", "cost");
  if ((!o.cost.empty() || !o.measure.empty()) && !o.fleet.machine.empty())
    return bad_request("--machine says what a step takes, as --cost and --measure do: leave one out", "machine");
  o.times = o.fleet.of_machine->times;
  if (!o.cost.empty()) {
    ESP_TRY(o.times, StepTimes::parse(o.cost));
  }
  if (o.load.rates.size() > 1)
    return bad_request("--request-rate takes one rate here; run again for another", "request-rate");
  if (o.fair_tenants && o.tenants == 0)
    return bad_request("--fair-tenants needs --tenants: how many the items are dealt to", "tenants");
  return success();
}

}  // namespace espalier::bench
