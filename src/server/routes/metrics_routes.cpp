// GET /metrics: our series (docs/http.md) and, beside them, SGLang's names.
#include <sys/resource.h>

#include "base/log.h"
#include "base/this_process.h"
#include "engine/engine_metrics.h"
#include "server/metrics/metrics_text.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

struct CounterRow {
  std::string_view ours, sglangs, help;  // sglangs: "" when upstream has none
  const Counter EngineMetrics::* value;
};

constexpr CounterRow kCounters[] = {
    {"prompt_tokens", "prompt_tokens", "Prompt tokens of admitted requests", &EngineMetrics::prompt_tokens},
    {"generated_tokens", "generation_tokens", "Tokens generated", &EngineMetrics::generated_tokens},
    {"prefix_cache_queried_tokens", "", "Prompt tokens looked up in the prefix cache", &EngineMetrics::queried_tokens},
    {"prefix_cache_hit_tokens", "", "Prompt tokens found in the prefix cache", &EngineMetrics::cached_tokens},
    {"computed_tokens", "", "Prompt tokens computed", &EngineMetrics::computed_tokens},
    {"preemptions", "num_retracted_requests", "Running requests sent back to wait", &EngineMetrics::preemptions},
    {"retracted_tokens", "num_retracted_output_tokens", "Tokens given back by them", &EngineMetrics::retracted_tokens},
    {"evicted_tokens", "evicted_tokens", "Tokens evicted from the prefix cache", &EngineMetrics::evicted_tokens},
    {"spec_verify_steps", "spec_verify_calls", "Decoding steps of sequences that may have drafts",
     &EngineMetrics::draft_steps},
    {"constraint_forced_tokens", "", "Tokens that a constraint left no choice about", &EngineMetrics::forced_tokens},
    {"constraint_passes_saved", "", "Steps of the model that these did not need", &EngineMetrics::passes_saved},
    {"constraint_masks", "", "Token masks that were worked out", &EngineMetrics::masks},
    {"constraint_late_masks", "", "Steps that a sequence sat out because its mask was not ready",
     &EngineMetrics::late_masks},
    {"spec_draft_tokens", "", "Drafted tokens that were verified", &EngineMetrics::drafted_tokens},
    {"spec_accepted_tokens", "", "Drafted tokens that came true", &EngineMetrics::accepted_tokens},
    {"kv_read_tokens", "", "Tokens whose keys and values attention read", &EngineMetrics::read_tokens},
    {"kv_read_extents", "", "Pieces of the pool in which they lay", &EngineMetrics::read_extents},
    {"kv_moved_tokens", "", "Tokens moved in the pool to lie together again", &EngineMetrics::moved_tokens},
    {"engine_steps", "", "Steps of the engine", &EngineMetrics::steps},
    {"engine_requests", "num_requests", "Requests admitted to the queue", &EngineMetrics::requests},
};

struct HistogramRow {
  std::string_view ours, sglangs, help;
  const Histogram EngineMetrics::* value;
};

constexpr HistogramRow kHistograms[] = {
    {"time_to_first_token_seconds", "time_to_first_token_seconds", "From submission to the first token",
     &EngineMetrics::first_token},
    {"inter_token_latency_seconds", "inter_token_latency_seconds", "Between tokens of a request",
     &EngineMetrics::inter_token_latency},
    {"request_duration_seconds", "e2e_request_latency_seconds", "From submission to the end", &EngineMetrics::duration},
    {"queue_seconds", "queue_time_seconds", "From submission to the first step", &EngineMetrics::queue},
    {"prefill_seconds", "", "From the first step to the first token", &EngineMetrics::prefill},
    {"decode_seconds", "", "From the first token to the end", &EngineMetrics::decode},
    {"engine_step_seconds", "", "Duration of a step", &EngineMetrics::step},
    {"scheduler_seconds", "", "Of a step, beside the models: planning, cache, results", &EngineMetrics::scheduling},
    {"request_prompt_tokens", "prompt_tokens_histogram", "Prompt tokens of a request",
     &EngineMetrics::request_prompt_tokens},
    {"request_generated_tokens", "generation_tokens_histogram", "Generated tokens of a request",
     &EngineMetrics::request_generated_tokens},
    {"batch_size", "", "Sequences in a step", &EngineMetrics::batch_size},
};

struct GaugeRow {
  std::string_view ours, sglangs, help;
  double (*value)(const ServedModel&, const EngineStatus&);
};

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

double used_tokens(const EngineStatus& s) {
  return s.pool_tokens - s.free_tokens - s.cached_tokens;
}

constexpr GaugeRow kGauges[] = {
    {"requests_running", "num_running_reqs", "Requests in the batch",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.running; }},
    {"requests_waiting", "num_queue_reqs", "Requests waiting",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.waiting; }},
    {"waiting_tokens", "", "Prompt tokens waiting",
     [](const ServedModel&, const EngineStatus& s) { return static_cast<double>(s.waiting_tokens); }},
    {"kv_cache_usage_ratio", "token_usage", "Share of the token pool in use by running requests",
     [](const ServedModel&, const EngineStatus& s) { return ratio(used_tokens(s), s.pool_tokens); }},
    {"kv_cache_tokens_capacity", "max_total_num_tokens", "Slots of the token pool",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.pool_tokens; }},
    {"kv_used_tokens", "num_used_tokens", "Slots in use by running requests",
     [](const ServedModel&, const EngineStatus& s) { return used_tokens(s); }},
    {"kv_available_tokens", "kv_available_tokens", "Free slots",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.free_tokens; }},
    {"kv_evictable_tokens", "kv_evictable_tokens", "Slots that only the prefix cache holds",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.cached_tokens; }},
    {"kv_window_tokens_capacity", "", "Slots of what is read through a window",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.window_tokens; }},
    {"kv_window_tokens_free", "", "Free slots of what is read through a window",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.free_window_tokens; }},
    {"state_cells_capacity", "", "Cells for recurrent states",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.state_cells; }},
    {"state_cells_free", "", "Cells for recurrent states that nobody uses",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.free_state_cells; }},
    {"state_snapshots", "", "Recurrent states that the prefix cache holds",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.snapshots; }},
    {"prefix_cache_hit_ratio", "cache_hit_rate", "Prompt tokens found in the cache, of those looked up, since start",
     [](const ServedModel& m, const EngineStatus&) {
       const EngineMetrics& e = m.engine->metrics();
       return ratio(static_cast<double>(e.cached_tokens.value()), static_cast<double>(e.queried_tokens.value()));
     }},
    {"generation_tokens_per_second", "gen_throughput", "Tokens per second over the last second with work; 0 when idle",
     [](const ServedModel&, const EngineStatus& s) -> double { return s.tokens_per_second; }},
    {"spec_accept_length", "spec_accept_length", "Tokens a decoding step, with drafts",
     [](const ServedModel& m, const EngineStatus&) {
       const EngineMetrics& e = m.engine->metrics();
       const auto steps = static_cast<double>(e.draft_steps.value());
       return ratio(steps + static_cast<double>(e.accepted_tokens.value()), steps);
     }},
    {"spec_accept_rate", "spec_accept_rate", "Drafted tokens that came true, of all",
     [](const ServedModel& m, const EngineStatus&) {
       const EngineMetrics& e = m.engine->metrics();
       return ratio(static_cast<double>(e.accepted_tokens.value()), static_cast<double>(e.drafted_tokens.value()));
     }},
    {"new_token_ratio", "new_token_ratio", "Estimate of the share of max_new_tokens that requests use",
     [](const ServedModel&, const EngineStatus& s) { return s.new_token_ratio; }},
    {"context_length", "context_len", "Tokens of a prompt and its output together",
     [](const ServedModel& m, const EngineStatus&) -> double { return m.limits().context_length; }},
};

struct DiskCounterRow {
  std::string_view name, help;
  const Counter DiskTierCounters::* value;
};

constexpr DiskCounterRow kDiskCounters[] = {
    {"stored_tokens", "Evicted tokens written to disk", &DiskTierCounters::stored_tokens},
    {"stored_bytes", "Bytes written to disk", &DiskTierCounters::stored_bytes},
    {"loads", "Times a request waited for its prefix from disk", &DiskTierCounters::loads},
    {"loaded_tokens", "Tokens that came back from disk", &DiskTierCounters::loaded_tokens},
    {"loaded_bytes", "Bytes read from disk", &DiskTierCounters::loaded_bytes},
    {"removed_bytes", "Bytes given up for newer ones", &DiskTierCounters::removed_bytes},
    {"damaged_files", "Files that were refused", &DiskTierCounters::damaged_files},
};
constexpr DiskCounterRow kDiskDrops[] = {
    {"busy", "", &DiskTierCounters::dropped_tokens_busy},
    {"short", "", &DiskTierCounters::dropped_tokens_short},
    {"full", "", &DiskTierCounters::dropped_tokens_full},
};

struct DiskGaugeRow {
  std::string_view name, help;
  const Gauge DiskTierCounters::* value;
};

constexpr DiskGaugeRow kDiskGauges[] = {
    {"on", "1 while evicted prefixes go to disk", &DiskTierCounters::on},
    {"used_bytes", "Bytes on disk", &DiskTierCounters::used_bytes},
    {"read_bytes_per_second", "Measured", &DiskTierCounters::read_bytes_per_second},
    {"computed_tokens_per_second", "Measured: what reading is weighed against",
     &DiskTierCounters::computed_tokens_per_second},
    {"break_even_tokens", "Runs this long are read; 0 = not measured yet, -1 = none is",
     &DiskTierCounters::break_even_tokens},
};

struct Names {
  std::string_view prefix;
  Labels labels;
};

void write_disk(MetricsText& text, const DiskTierCounters& disk, const Labels& labels) {
  const std::string prefix = "espalier_prefix_cache_disk_";
  for (const auto& row : kDiskCounters) {
    text.counter(prefix + std::string(row.name), row.help);
    text.sample(static_cast<double>((disk.*row.value).value()), labels);
  }
  text.counter(prefix + "dropped_tokens", "Evicted tokens that were not written: disk behind, run too short, no room");
  for (const auto& row : kDiskDrops) {
    Labels reasoned = labels;
    reasoned.emplace_back("reason", row.name);
    text.sample(static_cast<double>((disk.*row.value).value()), reasoned);
  }
  for (const auto& row : kDiskGauges) {
    text.gauge(prefix + std::string(row.name), row.help);
    text.sample((disk.*row.value).value(), labels);
  }
}

void write_engine(MetricsText& text, const ServedModel& model) {
  const Names ours{"espalier_", {{"model", model.name()}}};
  const Names sglangs{"sglang:", {{"model_name", model.name()}, {"engine_type", "unified"}}};
  const EngineMetrics& metrics = model.engine->metrics();
  const EngineStatus status = model.engine->status();
  const auto full = [](const Names& names, std::string_view name) { return std::string(names.prefix).append(name); };
  for (const Names* names : {&ours, &sglangs}) {
    const bool upstream = names == &sglangs;
    for (const auto& row : kCounters) {
      const auto name = upstream ? row.sglangs : row.ours;
      if (name.empty()) continue;
      text.counter(full(*names, name), row.help);
      text.sample(static_cast<double>((metrics.*row.value).value()), names->labels);
    }
    for (const auto& row : kGauges) {
      const auto name = upstream ? row.sglangs : row.ours;
      if (name.empty()) continue;
      text.gauge(full(*names, name), row.help);
      text.sample(row.value(model, status), names->labels);
    }
    for (const auto& row : kHistograms) {
      const auto name = upstream ? row.sglangs : row.ours;
      if (!name.empty()) text.histogram(full(*names, name), row.help, metrics.*row.value, names->labels);
    }
  }
  write_disk(text, metrics.disk, ours.labels);
  text.counter("sglang:cached_tokens", "Prompt tokens served from the cache");
  const auto from_disk = static_cast<double>(metrics.disk_hit_tokens.value());
  for (const auto& [source, tokens] :
       {std::pair("device", static_cast<double>(metrics.cached_tokens.value()) - from_disk),
        std::pair("storage", from_disk)}) {
    Labels labels = sglangs.labels;
    labels.emplace_back("cache_source", source);
    text.sample(tokens, labels);
  }
  // Endpoint pickers read the pool's size from it: pages are what KV events tell of, blocks of 16 tokens.
  constexpr int kPage = 16;
  Labels pool = sglangs.labels;
  pool.emplace_back("page_size", std::to_string(kPage));
  pool.emplace_back("num_pages", std::to_string(status.pool_tokens / kPage));
  text.gauge("sglang:cache_config_info", "The token pool in pages");
  text.sample(1, pool);
  text.gauge("espalier_build_info", "Version and instruction set");
  text.sample(1, {{"version", ESPALIER_VERSION}, {"isa", model.info().isa}});
}

void write_requests(MetricsText& text, const Service& service, const std::string& model) {
  text.counter("espalier_requests", "Answers by route, end and status");
  for (const auto& [labels, count] : service.metrics.requests()) {
    text.sample(static_cast<double>(count), {{"model", model},
                                             {"endpoint", labels.endpoint},
                                             {"finish_reason", labels.finish_reason},
                                             {"code", std::to_string(labels.code)}});
  }
  text.counter("espalier_rejected", "Requests refused before any work, by reason");
  for (const auto& [reason, count] : service.metrics.refusals()) {
    text.sample(static_cast<double>(count), {{"reason", reason}});
  }
  text.counter("espalier_aborted", "Requests whose client left, or that were aborted");
  text.sample(static_cast<double>(service.metrics.aborted.value()), {});
  text.counter("sglang:num_aborted_requests", "Requests whose client left, or that were aborted");
  text.sample(static_cast<double>(service.metrics.aborted.value()), {{"model_name", model}});
  text.counter("espalier_deadlines", "Requests ended by their deadline");
  text.sample(static_cast<double>(service.metrics.deadlines.value()), {});
  text.gauge("espalier_replies_open", "Requests being answered");
  text.sample(static_cast<double>(service.active()), {});
}

void write_net(MetricsText& text, const net::ServerStats& stats) {
  const std::pair<std::string_view, std::uint64_t> counters[] = {{"connections_accepted", stats.connections_accepted},
                                                                 {"connections_refused", stats.connections_refused},
                                                                 {"http_requests", stats.requests},
                                                                 {"http_requests_refused", stats.requests_refused},
                                                                 {"http_timeouts", stats.timeouts},
                                                                 {"clients_gone", stats.clients_gone},
                                                                 {"slow_readers_dropped", stats.slow_readers_dropped},
                                                                 {"handler_failures", stats.handler_failures},
                                                                 {"received_bytes", stats.bytes_received},
                                                                 {"sent_bytes", stats.bytes_sent}};
  for (const auto& [name, value] : counters) {
    text.counter(std::string("espalier_").append(name), "Of the HTTP server");
    text.sample(static_cast<double>(value), {});
  }
  text.gauge("espalier_connections_open", "Of the HTTP server");
  text.sample(static_cast<double>(stats.connections_open), {});
  text.counter("espalier_lost_log_lines", "Lines that stderr did not take");
  text.sample(static_cast<double>(log::lost_lines()), {});
}

void write_process(MetricsText& text, double started_at) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  text.counter("process_cpu_seconds", "User and system time");
  text.sample(seconds(usage.ru_utime) + seconds(usage.ru_stime), {});
  text.gauge("process_resident_memory_bytes", "Resident memory");
  text.sample(static_cast<double>(resident_bytes()), {});
  text.gauge("process_open_fds", "Open file descriptors");
  text.sample(static_cast<double>(open_descriptors()), {});
  text.gauge("process_start_time_seconds", "Start, in seconds since 1970");
  text.sample(started_at, {});
}

net::HttpResponse metrics(const Service& service, const net::HttpRequest& http) {
  const bool open = http.headers.get("accept").find("application/openmetrics-text") != std::string_view::npos;
  const auto format = open ? MetricsText::Format::open_metrics : MetricsText::Format::prometheus;
  MetricsText text(format);
  const auto model = service.model();
  if (model != nullptr) write_engine(text, *model);
  write_requests(text, service, model ? model->name() : std::string());
  if (service.net_stats) write_net(text, service.net_stats());
  write_process(text, service.started_at);
  auto response = net::HttpResponse::text(200, std::move(text).text());
  response.headers.set("Content-Type", std::string(MetricsText::content_type(format)));
  return response;
}

}  // namespace

Result<> add_metrics_routes(net::Router& router, Service& service) {
  if (!service.options.metrics) return success();
  return router.add(net::Method::get, "/metrics", [&service](net::HttpRequest http, net::Responder responder) {
    auto response = metrics(service, http);
    respond(service, http, responder, std::move(response));
  });
}

}  // namespace espalier::server
