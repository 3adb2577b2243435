#include "bench/sim/sim_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "bench/fleet/day_report.h"
#include "bench/load/random.h"
#include "bench/serving/console.h"
#include "bench/serving/measure.h"
#include "bench/sim/measure_times.h"
#include "bench/sim/planning.h"
#include "bench/sim/sim_options.h"
#include "bench/sim/sim_report.h"
#include "engine/load/loaded_model.h"

namespace espalier::bench {
namespace {

constexpr int kDistinctItems = 4096;  // of made-up requests; further ones are theirs again with fresh ids
constexpr int kDefaultPool = 1 << 18;
constexpr std::size_t kDefaultConcurrency = 256;

Result<std::vector<Workload>> load_workloads(SimOptions& o) {
  if (o.load.dataset.name == "workload") return read_workloads(o.load);
  DatasetOptions dataset = o.load.dataset;
  dataset.num_prompts = std::min(dataset.num_prompts.value_or(1000), kDistinctItems);
  dataset.token_ids = o.load.prompt_form != "text";
  ESP_TRY(Workload workload, make_dataset(dataset));
  if (dataset.name == "generated-shared-prefix")
    for (Item& item : workload.items) item.shared = dataset.gsp_system_prompt_len;
  std::vector<Workload> workloads;
  workloads.push_back(std::move(workload));
  return workloads;
}

void shuffle(Workload& workload, std::uint64_t seed) {
  Random random(derived_seed(seed, 0x5a1e));
  for (std::size_t i = workload.items.size(); i > 1; --i)
    std::swap(workload.items[i - 1], workload.items[random.below(i)]);
}

Fleet::Settings fleet_of(const SimOptions& o) {
  Fleet::Settings fleet = o.fleet.fleet;
  fleet.router.seed = o.load.dataset.seed;
  CoreOptions& core = fleet.server.core;
  core.max_running = o.max_running;
  core.prefill_chunk = o.chunk;
  core.target_itl = o.target_itl_ms / 1000;
  core.fair_tenants = o.fair_tenants;
  core.conservativeness = o.conservativeness;
  core.radix_cache = !o.no_cache;
  fleet.server.times = o.times;
  return fleet;
}

SimSettings settings_of(const SimOptions& o, const Workload& workload) {
  SimSettings s;
  s.transport.fleet = fleet_of(o);
  s.transport.fleet.remote = o.fleet.tiers.front();
  s.transport.seed = o.load.dataset.seed;
  s.transport.tenants = o.tenants;
  s.pace.arrivals = {o.load.rates.front(), o.load.burstiness, o.load.dataset.seed, o.load.ramp};
  s.pace.max_concurrency =
      o.load.max_concurrency ? static_cast<std::size_t>(*o.load.max_concurrency) : kDefaultConcurrency;
  s.pace.recorded_arrivals = o.load.use_arrivals || o.load.dataset.name == "mooncake";
  s.pace.items =
      o.load.dataset.num_prompts ? static_cast<std::size_t>(*o.load.dataset.num_prompts) : workload.items.size();
  return s;
}

std::vector<int> pools_of(const SimOptions& o, const SimWorkload& workload) {
  std::vector<int> pools;
  for (const double share : o.pool_shares)
    pools.push_back(static_cast<int>(std::clamp(share * static_cast<double>(workload.working_set()),
                                                static_cast<double>(workload.longest()) + 1, 5e8)));
  pools.insert(pools.end(), o.pool_tokens.begin(), o.pool_tokens.end());
  if (pools.empty()) pools.push_back(kDefaultPool);
  return pools;
}

void print_row(const SimOptions& o, const SimRow& row) {
  const SimReport& r = row.report;
  std::fputs(o.json ? (sim_json(row).dump() + "\n").c_str() : sim_line(row).c_str(), stdout);
  std::fflush(stdout);
  // Not on stdout: it is another one each time.
  fmt::print(stderr, "espalier: {} items simulated in {:.2f} s of this processor: {:.1f} us a call, {:.1f} us a step\n",
             r.items, r.host_seconds, 1e6 * r.host_seconds / std::max(1.0, static_cast<double>(r.counts.calls)),
             1e6 * r.host_seconds / std::max(1.0, static_cast<double>(r.steps)));
}

void simulate_all(const SimOptions& o, const SimWorkload& workload, const std::string& ids) {
  SimSettings settings = settings_of(o, workload.workload());
  if (!o.json) {
    fmt::print("{}", sim_heading(workload, settings, settings.pace.items, ids));
    fmt::print("{}", sim_columns());
  }
  Fleet::Settings& fleet = settings.transport.fleet;
  for (const int replicas : o.fleet.replicas)
    for (std::size_t router = 0; router < (replicas > 1 ? o.fleet.policies.size() : 1); ++router)
      for (const int pool : pools_of(o, workload))
        for (const auto& [policy_name, policy] : o.schedule)
          for (const auto& [eviction_name, eviction] : o.evict) {
            if (interrupted()) return;
            fleet.replicas = replicas;
            fleet.router.policy = o.fleet.policies[router];
            fleet.server.pool_tokens = pool;
            fleet.server.core.policy = policy;
            fleet.server.core.eviction = eviction;
            SimRow row{workload.workload().name, policy_name, eviction_name, pool, workload.working_set(), {}};
            if (o.fleet.is_fleet()) row.fleet = {replicas, replicas > 1 ? o.fleet.routers[router] : "none"};
            row.report = simulate(workload, settings, interrupted);
            print_row(o, row);
          }
}

std::string day_name(const SimOptions& o, std::size_t router, std::size_t tier) {
  if (o.fleet.remotes[tier] == "none") return o.fleet.routers[router];
  return o.fleet.routers[router] + ", remote tier " + o.fleet.remotes[tier];
}

DayRow simulated_row(const SimOptions& o, const DaySettings& day, const std::string& name) {
  DayRow row{name,
             o.schedule.front().name,
             day.fleet.replicas,
             day.fleet.prompt_servers,
             day.fleet.server.ranks.ranks,
             o.fleet.replica_cost,
             simulate_day(day, interrupted)};
  std::fputs(o.json ? (day_json(row).dump() + "\n").c_str() : day_lines(row).c_str(), stdout);
  std::fflush(stdout);
  double calls = 0;
  for (const WindowReport& level : row.report.levels) calls += level.calls;
  // Not on stdout: it is another one each time.
  fmt::print(stderr, "espalier: {:.0f} calls in the windows, {:.1f} s of this processor\n", calls,
             row.report.day.host_seconds);
  return row;
}

Result<> simulate_days(const SimOptions& o) {
  DaySettings day = o.fleet.day;
  day.fleet = fleet_of(o);
  day.requests_per_day = o.fleet.requests_per_day;
  day.seed = o.load.dataset.seed;
  day.fleet.server.core.end_tokens = {PromptEncoder::end_token};
  day.fleet.server.pool_tokens = o.pool_tokens.empty() ? o.fleet.of_machine->pool_tokens : o.pool_tokens.front();
  day.fleet.server.core.policy = o.schedule.front().policy;
  day.fleet.server.core.eviction = o.evict.front().kind;
  if (!o.json)
    fmt::print("{}", day_heading(day, o.fleet.each_replica,
                                 !o.cost.empty() || !o.measure.empty() ? "steps by --cost or --measure"
                                                                       : std::string(o.fleet.of_machine->what)));
  std::vector<DayRow> rows;
  for (std::size_t router = 0; router < o.fleet.policies.size(); ++router)
    for (std::size_t tier = 0; tier < o.fleet.tiers.size(); ++tier)
      for (const int replicas : o.fleet.replicas) {
        if (interrupted()) return success();
        day.fleet.replicas = replicas;
        day.fleet.router.policy = o.fleet.policies[router];
        day.fleet.remote = o.fleet.tiers[tier];
        day.requests_per_day = o.fleet.requests_per_day * (o.fleet.each_replica ? replicas : 1);
        rows.push_back(simulated_row(o, day, day_name(o, router, tier)));
      }
  if (o.fleet.plot.empty()) return success();
  const std::string title = fmt::format("Simulated: {:g} requests a day{}", o.fleet.requests_per_day,
                                        o.fleet.each_replica ? " for each server" : "");
  return plot_days(o.fleet.plot, rows, title);
}

Result<> take_times(SimOptions& o, const FindModel& find_model) {
  if (o.measure.empty()) return success();
  EngineOptions engine;
  engine.threads = o.threads;
  ESP_TRY(engine.model_path, find_model(o.measure));
  ESP_TRY(const MeasuredTimes m, measure_times(engine));
  o.times = m.times;
  fmt::print(stderr,
             "espalier: a step of {} takes {} seconds (base,prefill,decode,attention; {} steps, median error {:.1f} "
             "%); with 64 decoding {:.1f} ms\n",
             o.measure, m.times.text(), m.steps, 100 * m.median_error, 1e3 * m.step_of_64);
  return success();
}

void planning(const SimOptions& o) {
  const double step = StepWork{0, static_cast<double>(o.max_running), o.max_running * 256.0}.seconds(o.times);
  if (!o.json)
    fmt::print("{:<11}{:>9}{:>15}{:>22}{:>26}{:>10}   {} running; a step of the model {:.1f} ms (context 256)\n",
               "policy", "waiting", "first plan us", "plan us mean/p50/p99", "scheduler us mean/p50/p99", "of step",
               o.max_running, 1e3 * step);
  for (const auto& [name, policy] : o.schedule)
    for (const int waiting : {0, o.planning_waiting}) {
      const PlanningCosts c = measure_planning(policy, o.evict.front().kind, waiting, o.max_running);
      const auto us = [](const Summary& s) {
        return fmt::format("{:.0f}/{:.0f}/{:.0f}", 1e6 * s.mean, 1e6 * s.median, 1e6 * s.p99);
      };
      if (o.json) {
        const Json line = {{"policy", name},
                           {"waiting", waiting},
                           {"running", o.max_running},
                           {"first_plan_us", 1e6 * c.first_plan},
                           {"plan_us", 1e6 * c.plan.mean},
                           {"plan_p99_us", 1e6 * c.plan.p99},
                           {"scheduler_step_us", 1e6 * c.step.mean},
                           {"model_step_us", 1e6 * step}};
        fmt::print("{}\n", line.dump());
        continue;
      }
      fmt::print("{:<11}{:>9}{:>15.0f}{:>22}{:>26}{:>8.2f} %\n", name, waiting, 1e6 * c.first_plan, us(c.plan),
                 us(c.step), 100 * c.step.mean / step);
    }
}

Result<> run(SimOptions& o, const FindModel& find_model) {
  ESP_CHECK(check(o));
  ESP_CHECK(take_times(o, find_model));
  if (o.planning) {
    planning(o);
    return success();
  }
  catch_interrupts();
  if (o.fleet.requests_per_day > 0) return simulate_days(o);
  std::shared_ptr<const Tokenizer> tokenizer = o.load.dataset.tokenizer;
  if (!o.model.empty()) {
    EngineOptions engine;
    ESP_TRY(engine.model_path, find_model(o.model));
    ESP_TRY(ModelFiles files, open_model_files(engine));
    tokenizer = files.tokenizer;
    if (!tokenizer)
      return bad_request(fmt::format("--model {} has no tokenizer; leave it out to have words as tokens", o.model),
                         "model");
  }
  const PromptEncoder encoder(tokenizer);
  ESP_TRY(std::vector<Workload> workloads, load_workloads(o));
  for (Workload& workload : workloads) {
    if (o.shuffle) shuffle(workload, o.load.dataset.seed);
    const SimWorkload ready(std::move(workload), encoder, o.load.dataset.seed);
    simulate_all(o, ready, tokenizer ? "the tokenizer's" : "hashed words");
  }
  return success();
}

}  // namespace

std::function<int()> add_sim(CLI::App& bench, FindModel find_model) {
  auto o = std::make_shared<SimOptions>();
  auto* verb = bench.add_subcommand(
      "sim",
      "the real scheduler and cache with a simulated model: hit rates and queueing of policies, in simulated time");
  verb->footer(
      "The same flags print the same bytes; this machine's own time goes to stderr. Examples:\n"
      "  espalier bench sim --dataset-path mmlu_5shot.jsonl.gz --shuffle --policy lpm,dfs-weight,fcfs --pool-tokens "
      "16384\n"
      "  espalier bench sim --dataset-path llm_judge.jsonl.gz --pool-share 0.1,0.5,2 --eviction lru,lfu,cost\n"
      "  espalier bench sim --dataset-path mmlu_5shot.jsonl.gz --num-prompts 1000000\n"
      "  espalier bench sim --planning --policy lpm,fcfs\n"
      "  espalier bench sim --dataset-path mmlu_5shot.jsonl.gz --replicas 3 --router cache_aware,round_robin\n"
      "  espalier bench sim --requests-per-day 1e9 --replicas 250,1000 --machine llama-8b-h200 --replica-cost 3\n"
      "More: docs/benchmarks.md, docs/scale.md");
  add_sim_flags(*verb, *o);
  return [o, find_model = std::move(find_model)] {
    const auto done = run(*o, find_model);
    if (!done.ok()) return fail(done.error());
    return interrupted() ? 130 : 0;
  };
}

}  // namespace espalier::bench
