#include "server/metrics/vllm_series.h"

#include "espalier/cache_event.h"
#include "server/metrics/pool_usage.h"

namespace espalier::server {
namespace {

struct VllmCounter {
  std::string_view name, help;
  const Counter EngineMetrics::* value;
};

constexpr VllmCounter kVllmCounters[] = {
    {"prompt_tokens", "Prompt tokens of admitted requests", &EngineMetrics::prompt_tokens},
    {"generation_tokens", "Tokens generated", &EngineMetrics::generated_tokens},
    {"prefix_cache_queries", "Prompt tokens looked up in the prefix cache", &EngineMetrics::queried_tokens},
    {"prefix_cache_hits", "Prompt tokens found in the prefix cache", &EngineMetrics::cached_tokens},
    {"gpu_prefix_cache_queries", "As vllm:prefix_cache_queries_total", &EngineMetrics::queried_tokens},
    {"gpu_prefix_cache_hits", "As vllm:prefix_cache_hits_total", &EngineMetrics::cached_tokens},
    {"prompt_tokens_cached", "Prompt tokens found in the prefix cache", &EngineMetrics::cached_tokens},
    {"num_preemptions", "Running requests sent back to wait", &EngineMetrics::preemptions},
    {"spec_decode_num_drafts", "Decoding steps that had drafts", &EngineMetrics::draft_steps},
    {"spec_decode_num_draft_tokens", "Drafted tokens that were verified", &EngineMetrics::drafted_tokens},
    {"spec_decode_num_accepted_tokens", "Drafted tokens that came true", &EngineMetrics::accepted_tokens},
};

struct VllmHistogram {
  std::string_view name, help;
  const Histogram EngineMetrics::* value;
};

constexpr VllmHistogram kVllmHistograms[] = {
    {"time_to_first_token_seconds", "From submission to the first token", &EngineMetrics::first_token},
    {"inter_token_latency_seconds", "Between tokens of a request", &EngineMetrics::inter_token_latency},
    {"time_per_output_token_seconds", "As vllm:inter_token_latency_seconds", &EngineMetrics::inter_token_latency},
    {"e2e_request_latency_seconds", "From submission to the end", &EngineMetrics::duration},
    {"request_queue_time_seconds", "From submission to the first step", &EngineMetrics::queue},
    {"request_prefill_time_seconds", "From the first step to the first token", &EngineMetrics::prefill},
    {"request_decode_time_seconds", "From the first token to the end", &EngineMetrics::decode},
    {"request_prompt_tokens", "Prompt tokens of a request", &EngineMetrics::request_prompt_tokens},
    {"request_generation_tokens", "Generated tokens of a request", &EngineMetrics::request_generated_tokens},
    {"request_max_num_generation_tokens", "As vllm:request_generation_tokens",
     &EngineMetrics::request_generated_tokens},
};

struct VllmGauge {
  std::string_view name, help;
  double (*value)(const EngineStatus&);
};

constexpr VllmGauge kVllmGauges[] = {
    {"num_requests_running", "Requests in the batch", [](const EngineStatus& s) -> double { return s.running; }},
    {"num_requests_waiting", "Requests waiting", [](const EngineStatus& s) -> double { return s.waiting; }},
    {"num_requests_swapped", "Requests whose memory is elsewhere: none ever is",
     [](const EngineStatus&) -> double { return 0; }},
    {"kv_cache_usage_perc", "Share of the token pool in use by running requests, 0 to 1", pool_usage},
    {"gpu_cache_usage_perc", "As vllm:kv_cache_usage_perc", pool_usage},
};

struct VllmEnd {
  std::string_view reason;
  const Counter EngineMetrics::* value;
};

constexpr VllmEnd kVllmEnds[] = {
    {"stop", &EngineMetrics::finished_stop},
    {"length", &EngineMetrics::finished_length},
    {"abort", &EngineMetrics::finished_abort},
    {"error", &EngineMetrics::finished_error},
};

Labels labels_of(const VllmSource& source) {
  return {{"model_name", source.model}, {"engine", "0"}};
}

}  // namespace

void write_vllm_series(MetricsText& text, const std::vector<VllmSource>& sources) {
  const std::string prefix = "vllm:";
  const auto each = [&](auto value) {
    for (const VllmSource& source : sources) text.sample(value(source), labels_of(source));
  };
  for (const auto& row : kVllmCounters) {
    text.counter(prefix + std::string(row.name), row.help);
    each([&](const VllmSource& source) { return static_cast<double>((source.metrics->*row.value).value()); });
  }
  for (const auto& row : kVllmGauges) {
    text.gauge(prefix + std::string(row.name), row.help);
    each([&](const VllmSource& source) { return row.value(source.status); });
  }
  for (const auto& row : kVllmHistograms) {
    text.histogram(prefix + std::string(row.name), row.help);
    for (const VllmSource& source : sources) text.samples(source.metrics->*row.value, labels_of(source));
  }
  text.counter(prefix + "request_success", "Choices that came to an end, by how");
  for (const VllmSource& source : sources) {
    for (const auto& row : kVllmEnds) {
      Labels labels = labels_of(source);
      labels.emplace_back("finished_reason", std::string(row.reason));
      text.sample(static_cast<double>((source.metrics->*row.value).value()), labels);
    }
  }
  text.gauge(prefix + "cache_config_info", "The token pool in blocks");
  for (const VllmSource& source : sources) {
    Labels labels = labels_of(source);
    labels.emplace_back("block_size", std::to_string(kCacheBlockTokens));
    labels.emplace_back("num_gpu_blocks", std::to_string(source.status.pool_tokens / kCacheBlockTokens));
    text.sample(1, labels);
  }
}

}  // namespace espalier::server
