// GET /v1/state: what the server does at this moment, for the page's view of the scheduler: the numbers of /metrics for
// whoever has no Prometheus. Copies of counters; no engine is asked.
#include "base/system/this_process.h"
#include "engine/engine_metrics.h"
#include "server/delivery/json_writer.h"
#include "server/media/media_reader.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "text/chat/chat_template.h"

namespace espalier::server {
namespace {

struct HistogramField {
  std::string_view name;
  const Histogram EngineMetrics::* value;
};

constexpr HistogramField kShown[] = {
    {"time_to_first_token", &EngineMetrics::first_token},
    {"inter_token_latency", &EngineMetrics::inter_token_latency},
    {"request_duration", &EngineMetrics::duration},
    {"queue", &EngineMetrics::queue},
    {"step", &EngineMetrics::step},
    {"batch_size", &EngineMetrics::batch_size},
};

struct CounterField {
  std::string_view name;
  const Counter EngineMetrics::* value;
};

constexpr CounterField kCounted[] = {
    {"requests", &EngineMetrics::requests},
    {"prompt_tokens", &EngineMetrics::prompt_tokens},
    {"generated_tokens", &EngineMetrics::generated_tokens},
    {"computed_tokens", &EngineMetrics::computed_tokens},
    {"queried_tokens", &EngineMetrics::queried_tokens},
    {"cached_tokens", &EngineMetrics::cached_tokens},
    {"evicted_tokens", &EngineMetrics::evicted_tokens},
    {"preemptions", &EngineMetrics::preemptions},
    {"forced_tokens", &EngineMetrics::forced_tokens},
    {"drafted_tokens", &EngineMetrics::drafted_tokens},
    {"accepted_tokens", &EngineMetrics::accepted_tokens},
};

// {"bounds", "counts", "sum"}: one count more than bounds, of what lies above them all.
void write_histogram(JsonWriter& json, const HistogramField& field, const EngineMetrics& metrics) {
  const Histogram& histogram = metrics.*field.value;
  json.key(field.name).open('{').key("bounds").open('[');
  for (const double bound : histogram.bounds()) json.value(bound);
  json.close(']').key("counts").open('[');
  for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) json.value(histogram.count(i));
  json.close(']').field("sum", histogram.sum()).close('}');
}

void write_abilities(JsonWriter& json, const ServedModel& model) {
  const auto chat_template = model.need_template("");
  json.key("abilities").open('{').field("generate", !model.info().pooled.has_value());
  json.field("chat", chat_template.ok()).field("vision", model.media != nullptr);
  json.field("tools", model.call_format != nullptr).field("thinking", model.thinking_format != nullptr).close('}');
}

// What chats get that leave it open, as far as the model or the server says something of its own.
void write_sampling(JsonWriter& json, const ModelInfo& info, const ServerOptions& options) {
  json.key("sampling").open('{');
  if (options.sampling_defaults == "model") {
    if (info.temperature) json.field("temperature", *info.temperature);
    if (info.top_p) json.field("top_p", *info.top_p);
    if (info.top_k) json.field("top_k", *info.top_k);
    if (info.min_p) json.field("min_p", *info.min_p);
    if (info.repetition_penalty) json.field("repetition_penalty", *info.repetition_penalty);
  } else {
    json.field("temperature", SamplingParams{}.temperature);
  }
  json.close('}');
}

void write_engine_state(JsonWriter& json, const ServedModel& model) {
  const EngineStatus status = model.engine->status();
  const ModelInfo& info = model.info();
  json.field("architecture", info.architecture).field("quantization", info.quantisation);
  json.field("context_length", model.limits().context_length).field("max_running", info.max_running);
  json.field("prefill_chunk", info.prefill_chunk).field("isa", info.isa).field("threads", info.threads);
  json.field("device", info.device).field("device_name", info.device_name);
  json.field("activations", info.activations).field("kv_cache_dtype", info.kv_type);
  json.field("running", status.running).field("waiting", status.waiting);
  json.field("waiting_tokens", status.waiting_tokens).field("tokens_per_second", status.tokens_per_second);
  json.field("steps", status.steps).field("last_step_seconds_ago", status.last_step_seconds_ago);
  json.key("pool").open('{').field("tokens", status.pool_tokens).field("free", status.free_tokens);
  json.field("cached", status.cached_tokens).field("pinned", status.pinned_tokens).close('}');
  json.key("memory").open('{').field("weights", info.weight_bytes).field("kv", info.kv_bytes);
  json.field("states", info.state_bytes * info.state_cells).field("tower", info.tower_bytes).close('}');
}

void write_model_state(JsonWriter& json, const Service& service, int place, const ModelEntry& entry) {
  json.open('{').field("name", entry.names.front()).field("state", to_string(entry.state));
  json.field("progress", entry.progress).field("size_bytes", entry.bytes);
  if (const auto model = service.models.look(place)) {
    const EngineMetrics& metrics = model->engine->metrics();
    write_engine_state(json, *model);
    write_abilities(json, *model);
    write_sampling(json, model->info(), service.options);
    json.key("counters").open('{');
    for (const CounterField& counter : kCounted) json.field(counter.name, (metrics.*counter.value).value());
    json.close('}').key("histograms").open('{');
    for (const HistogramField& histogram : kShown) write_histogram(json, histogram, metrics);
    json.close('}');
  }
  json.close('}');
}

Result<net::HttpResponse> show_state(Service& service, const net::HttpRequest& http) {
  using Phase = Readiness::Phase;
  std::string out;
  JsonWriter json(out);
  const Phase phase = service.readiness.phase();
  json.open('{').field("object", "state").field("version", ESPALIER_VERSION);
  json.field("started_at", service.started_at);
  json.field("phase", phase == Phase::ready ? "ready" : phase == Phase::loading ? "loading" : "draining");
  if (phase == Phase::loading) json.field("loading", service.readiness.loading_text());
  json.field("wants_key", service.keys->wants_key()).field("reads_all", service.keys->may_read_all(http.headers));
  json.field("resident_bytes", resident_bytes()).key("models").open('[');
  int place = 0;
  for (const ModelEntry& entry : service.models.list()) write_model_state(json, service, place++, entry);
  json.close(']').close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_state_routes(net::Router& router, Service& service) {
  return router.add(net::Method::get, "/v1/state", telling(service, Dialect::openai, show_state));
}

}  // namespace espalier::server
