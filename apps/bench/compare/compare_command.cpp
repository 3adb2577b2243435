#include "bench/compare/compare_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "bench/compare/comparison.h"
#include "bench/compare/contender.h"
#include "bench/plot/plots.h"
#include "bench/serving/console.h"
#include "bench/serving/measure.h"

namespace espalier::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::vector<std::string> servers, backends = {"auto"}, models;
  ContenderOptions contender;
  LoadOptions load;
  int repeat = 5;
  double settle_s = 10;
  double budget_s = 0, strangers_limit = 0.1;
  bool cold_start = false, json = false;
  std::string output_file, plot;
};

class Compare {
 public:
  explicit Compare(const Arguments& a) : a_(a), start_(Clock::now()) {
    comparison_.strangers_limit = a.strangers_limit;
  }

  Result<Comparison> run() {
    ESP_CHECK(add_contenders());
    ESP_CHECK(meet());
    for (int r = 0; r < a_.repeat && !over(); ++r) ESP_CHECK(repetition(static_cast<std::size_t>(r)));
    comparison_.interrupted = interrupted();
    return std::move(comparison_);
  }

 private:
  bool over() const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    return interrupted() || (a_.budget_s > 0 && seconds > a_.budget_s);
  }

  Result<> add_contenders() {
    for (std::size_t i = 0; i < a_.servers.size(); ++i) {
      ESP_TRY(ContenderSpec spec, parse_contender(a_.servers[i]));
      for (const auto& earlier : contenders_)
        if (earlier->spec().name == spec.name) spec.name += fmt::format("-{}", i + 1);
      ContenderOptions options = a_.contender;
      options.interrupted = interrupted;
      options.target.backend = a_.backends.size() > i ? a_.backends[i] : a_.backends.front();
      options.target.model = a_.models.size() > i ? a_.models[i] : a_.models.empty() ? "" : a_.models.front();
      ComparedServer server;
      server.name = spec.name;
      server.command = spec.command;
      comparison_.servers.push_back(std::move(server));
      contenders_.push_back(std::make_unique<Contender>(std::move(spec), std::move(options)));
    }
    return success();
  }

  // Every server once, to learn what all of them take: requests must be the same for all.
  Result<> meet() {
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      ESP_CHECK(bring_up(i));
      const Target& target = contenders_[i]->target();
      comparison_.servers[i].backend = target.server.backend->name;
      comparison_.servers[i].model = target.model;
      if (i == 0) {
        common_ = target;
        continue;
      }
      if (target.vocabulary)
        common_.vocabulary = std::min(common_.vocabulary.value_or(*target.vocabulary), *target.vocabulary);
      if (target.server.backend->api == Backend::Api::chat) common_.server.backend = target.server.backend;
    }
    if (a_.cold_start)
      for (const auto& contender : contenders_) contender->down();
    return success();
  }

  Result<double> bring_up(std::size_t i) {
    ESP_TRY(const double seconds, contenders_[i]->up());
    if (seconds > 0) comparison_.servers[i].cold_starts_s.push_back(seconds);
    return seconds;
  }

  Result<> repetition(std::size_t number) {
    std::size_t at = 0;
    for (std::size_t rate = 0; rate < a_.load.rates.size(); ++rate) {
      RunSettings settings{a_.load.rates[rate], a_.load.dataset.seed + number * a_.load.rates.size() + rate, {}};
      ESP_TRY(const auto workloads, make_workloads(a_.load, common_, settings.seed));
      for (const Workload& workload : workloads) {
        if (over()) return success();
        settings.salt = workload.salted ? fmt::format("Run {}.\n", settings.seed) : "";
        if (comparison_.cases.size() == at) comparison_.cases.push_back({workload.name, settings.rate, {}});
        ESP_CHECK(alternate(workload, settings, comparison_.cases[at++]));
      }
    }
    return success();
  }

  // The same requests to one server after the other; every second time the other way round, so that a machine that
  // grows slower or faster favours none.
  Result<> alternate(const Workload& workload, const RunSettings& settings, ComparedCase& compared) {
    Repetition repetition;
    repetition.visits.resize(contenders_.size());
    const bool back = compared.repetitions.size() % 2 == 1;
    for (std::size_t turn = 0; turn < contenders_.size(); ++turn) {
      const std::size_t i = back ? contenders_.size() - 1 - turn : turn;
      ESP_TRY(Visit visit, this->visit(i, workload, settings));
      if (interrupted()) return success();  // half a repetition says nothing
      if (!a_.json) {
        const std::string line =
            visit_line(compared, compared.repetitions.size(), comparison_.servers[i], visit, a_.strangers_limit);
        std::fputs(line.c_str(), stdout);
        std::fflush(stdout);
      }
      repetition.visits[i] = std::move(visit);
    }
    compared.repetitions.push_back(std::move(repetition));
    return success();
  }

  Result<Visit> visit(std::size_t i, const Workload& workload, const RunSettings& settings) {
    Contender& contender = *contenders_[i];
    Visit visit;
    ESP_TRY(visit.cold_start_s, bring_up(i));
    // What servers still do behind their start or their last answer would slow the next one down.
    constexpr double kIdle = 0.03;
    wait_until_quiet(kIdle, std::chrono::duration<double>(a_.settle_s), interrupted);
    const LoadMeter meter(contender.pid());
    RunHooks hooks = console_hooks(fmt::format("{} on {}", workload.name, contender.spec().name));
    watch_memory(i, hooks);
    auto measured = measure(contender.target(), a_.load, workload, settings, hooks);
    clear_progress();
    visit.conditions = meter.read();
    note_memory(i);
    ESP_TRY(Measurement m, std::move(measured));
    visit.report = std::move(m.report);
    if (a_.cold_start) contender.down();
    return visit;
  }

  void note_memory(std::size_t i) {
    if (const pid_t pid = contenders_[i]->pid(); pid > 0) {
      auto& peak = comparison_.servers[i].peak_resident_bytes;
      peak = std::max(peak, process_tree(pid).resident_bytes);
    }
  }
  void watch_memory(std::size_t i, RunHooks& hooks) {
    const auto shown = hooks.on_progress;
    auto next = Clock::now();
    hooks.on_progress = [this, i, shown, next](const Progress& progress) mutable {
      if (shown) shown(progress);
      if (Clock::now() < next) return;
      next = Clock::now() + std::chrono::seconds(1);  // walking /proc costs a millisecond or two
      note_memory(i);
    };
  }

  const Arguments& a_;
  const Clock::time_point start_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  Target common_;  // what all can take
  Comparison comparison_;
};

bool any_failed(const Comparison& comparison) {
  for (const ComparedCase& compared : comparison.cases)
    for (const Repetition& repetition : compared.repetitions)
      for (const Visit& visit : repetition.visits)
        if (visit.report.failed > 0) return true;
  return false;
}

int run(Arguments& a) {
  const auto work = [&]() -> Result<int> {
    if (a.servers.size() < 2) return bad_request("compare needs at least two servers", "server");
    if (!a.plot.empty()) ESP_CHECK(check_plot_path(a.plot));
    ESP_CHECK(check(a.load));
    catch_interrupts();
    ESP_TRY(const Comparison comparison, Compare(a).run());
    const std::string json = comparison_json(comparison).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (!a.output_file.empty()) ESP_CHECK(write_text(a.output_file, json, false));
    std::fputs(a.json ? json.c_str() : ("\n" + comparison_table(comparison)).c_str(), stdout);
    if (!a.plot.empty()) ESP_CHECK(plot_comparison(a.plot, comparison));
    if (comparison.interrupted) return 130;
    return any_failed(comparison) ? 1 : 0;
  };
  const auto code = work();
  return code.ok() ? *code : fail(code.error());
}

}  // namespace

std::function<int()> add_compare(CLI::App& bench) {
  auto a = std::make_shared<Arguments>();
  auto* verb = bench.add_subcommand(
      "compare", "two or more servers in alternation (A, B, B, A, ...): ratios to the first with their spread");
  verb->footer(
      "Each server is [NAME=]URL, or [NAME=]COMMAND in which {port} stands for its port; commands are launched here "
      "and\n"
      "ended here. Within a repetition all get the same requests, in the next one fresh ones. Examples:\n"
      "  espalier bench compare http://127.0.0.1:8080 http://127.0.0.1:30000 --num-prompts 64\n"
      "  espalier bench compare \"llama=llama-server -m M.gguf --port {port}\" \"espalier serve M.gguf --port {port}\" "
      "\\\n"
      "    --dataset-path workloads/ --workload-size small --repeat 3 --plot beside.html\n"
      "More: docs/benchmarks.md");
  verb->add_option("servers", a->servers, "the servers; ratios are taken to the first")->required();
  verb->add_option("--backend", a->backends,
                   "kind of each server, or of all; auto = as /v1/models tells, spoken to as completions")
      ->delimiter(',')
      ->capture_default_str();
  verb->add_option("--model", a->models, "name in the requests, of each or of all; default: the first listed")
      ->delimiter(',');
  verb->add_option("--repeat", a->repeat, "repetitions")->capture_default_str()->check(CLI::PositiveNumber);
  verb->add_option("--budget", a->budget_s, "seconds after which no further run is started; 0 = no limit")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--cold-start", a->cold_start,
                 "launch before each run and end after it, so that only one is up; times the start");
  verb->add_option("--launch-timeout", a->contender.launch_timeout_s,
                   "seconds until a launched server must complete a request")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  verb->add_option("--settle", a->settle_s,
                   "seconds that a run waits at most for the processors to be idle, since servers still work behind "
                   "their start or last answer; 0 = it does not wait")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--log-dir", a->contender.log_folder, "folder for the launched servers' output, NAME.log")
      ->capture_default_str();
  verb->add_option(
          "--strangers-limit", a->strangers_limit,
          "share of all processors that other programs may use (0..1); repetitions above it are marked and left out")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  verb->add_option("--output-file", a->output_file, "write the JSON to this file");
  verb->add_flag("--json", a->json, "JSON on stdout instead of tables");
  verb->add_option("--plot", a->plot, "draw ratios (and latency against rate), FILE.svg or FILE.html");
  add_credential_flags(*verb, a->contender.target);
  add_load_flags(*verb, a->load);
  return [a] { return run(*a); };
}

}  // namespace espalier::bench
