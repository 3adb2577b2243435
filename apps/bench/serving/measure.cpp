#include "bench/serving/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "bench/workload/workload_file.h"

namespace espalier::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kWorkloadConcurrency = 32;
constexpr int kWarmUpTokens = 32;

bool is_workload_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".jsonl") || name.ends_with(".jsonl.gz");
}

// The files that the given paths mean; a folder means those in it, in order of their names.
Result<std::vector<std::string>> workload_files(const LoadOptions& o) {
  std::vector<std::string> files;
  for (const std::string& path : o.dataset_paths) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(path, failed)) {
      const bool small = entry.path().string().find(".small.") != std::string::npos;
      if (is_workload_file(entry.path()) && (o.workload_size == "any" || small == (o.workload_size == "small")))
        inside.push_back(entry.path().string());
    }
    if (inside.empty())
      return bad_request(fmt::format("--dataset-path {} holds no workload files (.jsonl, .jsonl.gz)", path),
                         "dataset-path");
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

const Call* first_call(const Ops& ops, bool with_constraint) {
  for (const Op& op : ops) {
    if (const auto* gen = std::get_if<GenOp>(&op.what))
      if (!with_constraint || !gen->call.constraint.empty()) return &gen->call;
    if (const auto* fork = std::get_if<ForkOp>(&op.what))
      for (const Ops& branch : fork->branches)
        if (const Call* call = first_call(branch, with_constraint)) return call;
  }
  return nullptr;
}

const Call* first_call(const Workload& workload, bool with_constraint) {
  for (const Item& item : workload.items) {
    if (const auto* program = std::get_if<Program>(&item.work)) {
      if (const Call* call = first_call(program->ops, with_constraint)) return call;
    } else {
      const Call& call = std::get<RequestWork>(item.work).call;
      if (!with_constraint || !call.constraint.empty()) return &call;
    }
  }
  return nullptr;
}

// A call of the workload's own kind, whose prompt is none of its prompts.
Call warm_up_call(const Workload& workload) {
  const Call* model = first_call(workload, true);
  if (!model) model = first_call(workload, false);
  Call call = model ? *model : Call();
  call.max_tokens = std::min(call.max_tokens, kWarmUpTokens);
  if (auto* ids = std::get_if<std::vector<TokenId>>(&call.prompt)) std::reverse(ids->begin(), ids->end());
  if (auto* text = std::get_if<std::string>(&call.prompt)) *text = "Before the clock starts: " + text->substr(0, 4000);
  return call;
}

Workload warm_up_workload(const Workload& workload, int requests) {
  Workload warm;
  for (int i = 0; i < requests; ++i) {
    Item item;
    item.work = RequestWork{warm_up_call(workload), {}};
    warm.items.push_back(std::move(item));
  }
  return warm;
}

CallPolicy policy_of(const Target& target, const LoadOptions& o, const RunSettings& settings) {
  CallPolicy policy;
  policy.select = o.select;
  policy.constraints = o.constraints != "off";
  policy.ignore_eos = !o.disable_ignore_eos;
  policy.split_samples = !target.server.backend->takes_samples;
  policy.salt = settings.salt;
  policy.adapters = o.lora_names;
  policy.adapter_seed = settings.seed;
  return policy;
}

HttpTransportOptions transport_options(const Target& target, const LoadOptions& o) {
  HttpTransportOptions options;
  options.dialect.model = target.model;
  options.dialect.stream = !o.disable_stream;
  options.dialect.temperature = o.temperature;
  options.dialect.sampling = o.sampling;
  options.dialect.return_logprob = o.return_logprob;
  options.dialect.ask_ids = o.report_ideal;
  options.dialect.incremental_events = target.incremental_events;
  options.dialect.extra_body = o.extra_body;
  options.timeout = std::chrono::seconds(o.timeout_s);
  options.fresh_connections = o.fresh_connections;
  return options;
}

// The sentence with which the server refused; empty when all went well.
std::string refusal_in(const RunResult& run) {
  for (const CallRecord& call : run.journal.calls)
    if (!call.outcome.ok) return call.outcome.error;
  return {};
}

// Sends the warm-up; where only the constraints are refused, and they may be left out, turns them off.
Result<> warm_up(Transport& transport, const LoadOptions& o, const Workload& workload, CallPolicy& policy,
                 const RunHooks& hooks, std::vector<std::string>& notes) {
  const bool constrained = policy.constraints && first_call(workload, true) != nullptr;
  const int requests = std::max(o.warmup_requests, constrained && o.constraints == "auto" ? 1 : 0);
  if (requests == 0) return success();
  const Workload warm = warm_up_workload(workload, requests);
  const RunHooks quiet{{}, hooks.interrupted};
  CallPolicy unsalted = policy;
  unsalted.salt = "Warm up.\n";
  std::string refusal = refusal_in(conduct(warm, transport, unsalted, {}, quiet));
  if (!refusal.empty() && constrained && o.constraints == "auto") {
    unsalted.constraints = policy.constraints = false;
    notes.push_back("constraints are left out: " + refusal);
    refusal = refusal_in(conduct(warm, transport, unsalted, {}, quiet));
  }
  if (!refusal.empty())
    return Error{Error::Kind::network, "the warm-up request failed, so nothing was measured: " + refusal, {}, {}};
  return success();
}

}  // namespace

Result<std::vector<Workload>> read_workloads(const LoadOptions& o) {
  std::vector<Workload> workloads;
  ESP_TRY(const auto files, workload_files(o));
  for (const std::string& file : files) {
    ESP_TRY(Workload workload, read_workload(file));
    if (o.dataset.num_prompts)
      workload.items.resize(std::min(workload.items.size(), static_cast<std::size_t>(*o.dataset.num_prompts)));
    workloads.push_back(std::move(workload));
  }
  return workloads;
}

Result<std::vector<Workload>> make_workloads(const LoadOptions& o, const Target& target, std::uint64_t seed) {
  if (o.dataset.name == "workload") return read_workloads(o);
  std::vector<Workload> workloads;
  DatasetOptions dataset = o.dataset;
  dataset.seed = seed;
  const bool chat = target.server.backend->api == Backend::Api::chat;
  dataset.token_ids = o.prompt_form == "ids" || (o.prompt_form == "auto" && !chat);
  if (chat && dataset.token_ids)
    return bad_request("a chat takes messages, not token ids: leave --prompt-form ids out", "prompt-form");
  if (!dataset.vocabulary) dataset.vocabulary = target.vocabulary;
  ESP_TRY(Workload workload, make_dataset(dataset));
  workloads.push_back(std::move(workload));
  return workloads;
}

Result<Measurement> measure(const Target& target, const LoadOptions& o, const Workload& workload,
                            const RunSettings& settings, const RunHooks& hooks) {
  ESP_TRY(const auto transport, HttpTransport::open(target.server, transport_options(target, o)));
  CallPolicy policy = policy_of(target, o, settings);
  std::vector<std::string> notes;
  ESP_CHECK(warm_up(*transport, o, workload, policy, hooks, notes));
  if (o.flush_cache) ESP_CHECK(flush_cache(target.server));
  Pace pace;
  pace.arrivals = {settings.rate, o.burstiness, settings.seed, o.ramp};
  std::optional<int> most = o.max_concurrency;
  if (!most && o.dataset.name == "workload") most = kWorkloadConcurrency;
  if (most) pace.max_concurrency = static_cast<std::size_t>(*most);
  pace.recorded_arrivals = o.use_arrivals || o.dataset.name == "mooncake";
  Measurement m;
  m.run = conduct(workload, *transport, policy, pace, hooks);
  m.report = make_report(workload, m.run, target, o, settings.rate);
  m.report.max_concurrency = most;
  m.report.notes = std::move(notes);
  if (o.report_ideal && !m.report.ideal_hit_rate)
    m.report.notes.emplace_back("--report-ideal: the server told no prompt ids, so no ideal hit rate is known");
  return m;
}

}  // namespace espalier::bench
