#include "bench/serving/serving_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "bench/plot/plots.h"
#include "bench/serving/console.h"
#include "bench/serving/measure.h"
#include "bench/serving/target_options.h"

namespace espalier::bench {
namespace {

struct Arguments {
  TargetOptions target;
  LoadOptions load;
  std::string tag, label, output_file, result_dir, result_filename, plot;
  bool output_details = false, save_result = false, save_detailed = false, append_result = false, json = false;
  bool profile = false, pd_separated = false;
};

std::string dumped(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<> refuse_what_is_not_done(const Arguments& a) {
  if (a.profile)
    return bad_request(
        "--profile is not done here: start and stop the server's own profiler around a run (/start_profile), or use "
        "perf on its process",
        "profile");
  if (a.pd_separated)
    return bad_request("--pd-separated is not done here: measure the router's address, it hides the two halves",
                       "pd-separated");
  if (!a.plot.empty()) return check_plot_path(a.plot);
  return success();
}

std::string vllm_filename(const Arguments& a, const Report& r) {
  std::string name = a.result_filename;
  if (name.empty()) {
    std::string model = r.model.substr(r.model.rfind('/') + 1);
    name = fmt::format("{}-{}qps-{}-{:%Y%m%d-%H%M%S}.json", a.label.empty() ? r.backend : a.label,
                       std::isinf(r.request_rate) ? "inf" : fmt::format("{:g}", r.request_rate), model,
                       fmt::localtime(std::time(nullptr)));
  }
  return a.result_dir.empty() ? name : (std::filesystem::path(a.result_dir) / name).string();
}

// Files and lines of one run.
Result<> put_out(const Arguments& a, const Target& target, const Measurement& m) {
  Json line = report_json(m.report, a.load, target, a.tag);
  if (a.output_details) add_details(line, m.run);
  if (!a.output_file.empty()) ESP_CHECK(write_text(a.output_file, dumped(line), true));
  if (a.save_result || a.save_detailed || a.append_result) {
    const Json result = vllm_json(m.report, a.load, a.save_detailed ? &m.run : nullptr);
    ESP_CHECK(
        write_text(vllm_filename(a, m.report), a.append_result ? dumped(result) : dumped(result, 2), a.append_result));
  }
  std::fputs(a.json ? dumped(line).c_str() : report_table(m.report).c_str(), stdout);
  std::fflush(stdout);
  return success();
}

struct Runs {
  std::vector<Report> reports;
  bool any_failed = false;
};

// Every workload at every rate.
Result<Runs> run_all(const Arguments& a, const Target& target) {
  Runs runs;
  for (std::size_t i = 0; i < a.load.rates.size(); ++i) {
    // Later rates of a sweep must not find their prompts in the cache that the earlier ones left.
    RunSettings settings{a.load.rates[i], a.load.dataset.seed + i, {}};
    ESP_TRY(const auto workloads, make_workloads(a.load, target, settings.seed));
    for (const Workload& workload : workloads) {
      if (workload.salted && i > 0) settings.salt = fmt::format("Run {}.\n", i + 1);
      auto measured = measure(target, a.load, workload, settings, console_hooks(workload.name));
      clear_progress();
      ESP_TRY(const Measurement m, std::move(measured));
      ESP_CHECK(put_out(a, target, m));
      runs.any_failed = runs.any_failed || m.report.failed > 0;
      runs.reports.push_back(m.report);
      if (m.run.interrupted) return runs;
    }
  }
  return runs;
}

void print_together(const Arguments& a, const std::vector<Report>& reports) {
  if (a.json || reports.empty()) return;
  if (a.load.rates.size() > 1)
    fmt::print("\n{}", sweep_table(reports));
  else if (a.load.dataset.name == "workload")
    fmt::print("\n{}", workload_table(reports));
}

int run(Arguments& a) {
  const auto work = [&]() -> Result<int> {
    ESP_CHECK(refuse_what_is_not_done(a));
    ESP_CHECK(check(a.load));
    ESP_TRY(Server server, server_of(a.target));
    catch_interrupts();
    TargetQuestions questions;
    questions.model = a.target.served_model_name.empty() ? a.target.model : a.target.served_model_name;
    questions.ready_timeout_s = a.target.ready_timeout_s;
    questions.interrupted = interrupted;
    ESP_TRY(const Target target, ask(std::move(server), questions));
    ESP_TRY(const Runs runs, run_all(a, target));
    print_together(a, runs.reports);
    if (!a.plot.empty()) ESP_CHECK(plot_sweep(a.plot, {{target.name, runs.reports}}));
    if (interrupted()) return 130;
    return runs.any_failed ? 1 : 0;
  };
  const auto code = work();
  return code.ok() ? *code : fail(code.error());
}

}  // namespace

std::function<int()> add_serving(CLI::App& bench) {
  auto a = std::make_shared<Arguments>();
  auto* verb = bench.add_subcommand(
      "serving",
      "load on a server over HTTP: throughput and latencies, with the flags and results of SGLang's bench_serving");
  verb->footer(
      "Exit code 1 when a request failed. Examples:\n"
      "  espalier bench serving --num-prompts 64 --random-input-len 256 --random-output-len 64\n"
      "  espalier bench serving --backend llamacpp --port 8080 --request-rate 1,2,4,8 --plot sweep.html\n"
      "  espalier bench serving --dataset-path gsm8k_8shot.small.jsonl.gz --max-concurrency 16\n"
      "More: docs/benchmarks.md");
  add_target_flags(*verb, a->target);
  add_load_flags(*verb, a->load);
  verb->add_option("--output-file", a->output_file, "append a JSON line with SGLang's keys to this file");
  verb->add_flag("--output-details", a->output_details, "in JSON also what each request took, wrote and failed with");
  verb->add_flag("--save-result", a->save_result, "write a JSON file with vLLM's keys");
  verb->add_flag("--save-detailed", a->save_detailed, "the same, with what each request took");
  verb->add_flag("--append-result", a->append_result, "the same, behind what the file holds");
  verb->add_option("--result-dir", a->result_dir, "folder of --save-result; default: here");
  verb->add_option("--result-filename", a->result_filename,
                   "name of --save-result; default: made of rate, model, time");
  verb->add_option("--label", a->label, "beginning of that name; default: the backend");
  verb->add_option("--tag", a->tag, "kept in the JSON");
  verb->add_flag("--json", a->json, "JSON lines on stdout instead of tables");
  verb->add_option("--plot", a->plot, "draw latency against rate, FILE.svg or FILE.html");
  verb->add_flag("--profile", a->profile, "not done here");
  verb->add_flag("--pd-separated", a->pd_separated, "not done here");
  verb->add_flag("--disable-tqdm")->description("accepted; progress is shown on terminals only");
  return [a] { return run(*a); };
}

}  // namespace espalier::bench
