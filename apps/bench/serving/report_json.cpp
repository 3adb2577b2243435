#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "bench/serving/report.h"

namespace espalier::bench {
namespace {

Json number_or_inf(double rate) {
  return std::isinf(rate) ? Json("inf") : Json(rate);  // JSON has no infinity; "inf" is what the flag takes
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

void put(Json& json, const std::string& name, const Summary& s) {
  json["mean_" + name + "_ms"] = s.mean;
  json["median_" + name + "_ms"] = s.median;
  json["std_" + name + "_ms"] = s.deviation;
  json["p90_" + name + "_ms"] = s.p90;
  json["p95_" + name + "_ms"] = s.p95;
  json["p99_" + name + "_ms"] = s.p99;
  for (const auto& [percent, value] : s.asked) json[fmt::format("p{:g}_{}_ms", percent, name)] = value;
}

Json workload_figures(const Report& r) {
  Json json = {
      {"name", r.workload}, {r.programs ? "programs" : "requests", r.items}, {"calls", r.completed + r.failed}};
  json["ended"] = r.items_ended;
  json["select_scorings"] = r.scorings;
  json["unmatched_selects"] = r.unmatched_selects;
  if (r.accuracy.checked > 0) {
    json["answers_checked"] = r.accuracy.checked;
    json["answers_right"] = r.accuracy.right;
    json["accuracy"] = static_cast<double>(r.accuracy.right) / r.accuracy.checked;
  }
  return json;
}

// In the order in which calls were sent.
std::vector<const CallRecord*> in_order(const RunResult& run) {
  std::vector<const CallRecord*> calls;
  for (const CallRecord& call : run.journal.calls) calls.push_back(&call);
  std::stable_sort(calls.begin(), calls.end(), [](auto* a, auto* b) { return a->outcome.sent < b->outcome.sent; });
  return calls;
}

}  // namespace

Json report_json(const Report& r, const LoadOptions& o, const Target& target, const std::string& tag) {
  Json json;
  json["tag"] = tag.empty() ? Json() : Json(tag);
  json["backend"] = r.backend;
  json["dataset_name"] = r.dataset;
  json["request_rate"] = number_or_inf(r.request_rate);
  json["max_concurrency"] = or_null(r.max_concurrency);
  json["sharegpt_output_len"] = or_null(o.dataset.sharegpt_output_len);
  json["random_input_len"] = o.dataset.random_input_len;
  json["random_output_len"] = o.dataset.random_output_len;
  json["random_range_ratio"] = o.dataset.random_range_ratio;
  json["server_info"] = target.info;
  json["duration"] = r.duration;
  json["completed"] = r.completed;
  json["total_input_tokens"] = r.input_tokens;
  json["total_output_tokens"] = r.output_tokens;
  json["total_output_tokens_retokenized"] = r.retokenized_output_tokens;
  json["request_throughput"] = r.per_second(r.completed);
  json["input_throughput"] = r.per_second(static_cast<double>(r.input_tokens));
  json["output_throughput"] = r.per_second(static_cast<double>(r.output_tokens));
  json["total_throughput"] = r.per_second(static_cast<double>(r.input_tokens + r.output_tokens));
  put(json, "e2e_latency", r.e2e);
  put(json, "ttft", r.ttft);
  put(json, "tpot", r.tpot);
  put(json, "itl", r.itl);
  json["concurrency"] = r.concurrency;
  json["accept_length"] = or_null(r.accept_length);
  json["max_output_tokens_per_s"] = r.most_output_tokens_per_s;
  json["max_concurrent_requests"] = r.most_concurrent;
  json["total_cached_tokens"] = or_null(r.cached_tokens);
  const auto hit_rate = r.hit_rate();
  json["cache_hit_rate_pct"] = hit_rate ? Json(100 * *hit_rate) : Json();
  if (r.ideal_hit_rate) json["ideal_hit_rate_pct"] = 100 * *r.ideal_hit_rate;
  if (r.goodput) json["request_goodput"] = *r.goodput;
  json["failed"] = r.failed;
  json["model"] = r.model;
  json["seed"] = o.dataset.seed;
  json["workload"] = workload_figures(r);
  if (!r.first_error.empty()) json["first_error"] = r.first_error;
  if (r.interrupted) json["interrupted"] = true;
  if (!r.notes.empty()) json["notes"] = r.notes;
  return json;
}

void add_details(Json& result, const RunResult& run) {
  Json inputs = Json::array(), outputs = Json::array(), ttfts = Json::array(), itls = Json::array(),
       texts = Json::array(), errors = Json::array();
  for (const CallRecord* call : in_order(run)) {
    inputs.push_back(call->prompt_tokens());
    outputs.push_back(call->outcome.output_tokens);
    ttfts.push_back(call->outcome.ok ? call->outcome.time_to_first_token() : 0.0);
    itls.push_back(call->outcome.gaps);
    texts.push_back(call->outcome.text);
    errors.push_back(call->outcome.error);
  }
  result["input_lens"] = std::move(inputs);
  result["output_lens"] = std::move(outputs);
  result["ttfts"] = std::move(ttfts);
  result["itls"] = std::move(itls);
  result["generated_texts"] = std::move(texts);
  result["errors"] = std::move(errors);
}

Json vllm_json(const Report& r, const LoadOptions& o, const RunResult* details) {
  Json json;
  for (const auto& [name, value] : o.metadata_values) json[name] = value;  // what is measured overwrites it
  json["date"] = fmt::format("{:%Y%m%d-%H%M%S}", fmt::localtime(std::time(nullptr)));
  json["backend"] = r.backend;
  json["endpoint_type"] = r.backend;
  json["model_id"] = r.model;
  json["tokenizer_id"] = o.tokenizer_path.empty() ? r.model : o.tokenizer_path;
  json["num_prompts"] = r.items;
  json["request_rate"] = number_or_inf(r.request_rate);
  json["burstiness"] = o.burstiness;
  if (o.ramp) {
    json["ramp_up_strategy"] = o.ramp_up_strategy;
    json["ramp_up_start_rps"] = o.ramp->start;
    json["ramp_up_end_rps"] = o.ramp->end;
  }
  json["max_concurrency"] = or_null(r.max_concurrency);
  json["duration"] = r.duration;
  json["completed"] = r.completed;
  json["failed"] = r.failed;
  json["total_input_tokens"] = r.input_tokens;
  json["total_output_tokens"] = r.output_tokens;
  json["request_throughput"] = r.per_second(r.completed);
  json["request_goodput"] = or_null(r.goodput);
  json["output_throughput"] = r.per_second(static_cast<double>(r.output_tokens));
  json["total_token_throughput"] = r.per_second(static_cast<double>(r.input_tokens + r.output_tokens));
  json["max_output_tokens_per_s"] = r.most_output_tokens_per_s;
  json["max_concurrent_requests"] = r.most_concurrent;
  put(json, "ttft", r.ttft);
  put(json, "tpot", r.tpot);
  put(json, "itl", r.itl);
  put(json, "e2el", r.e2e);
  if (details) add_details(json, *details);
  return json;
}

}  // namespace espalier::bench
