// GET /metrics: the engines' series (metrics/engine_series.h), and what the server itself counts (docs/http.md).
#include "server/metrics/engine_series.h"
#include "server/metrics/metrics_text.h"
#include "server/metrics/process_series.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

// Which models there are, in memory or not.
void write_models(MetricsText& text, const std::vector<ModelEntry>& entries) {
  struct Row {
    std::string_view name, help;
    bool counter;
    double (*value)(const ModelEntry&);
  };
  constexpr Row kRows[] = {
      {"model_loaded", "1 while the model is in memory", false,
       [](const ModelEntry& e) -> double { return e.state == ModelState::loaded || e.state == ModelState::unloading; }},
      {"model_waiting_requests", "Requests that wait for the model to be loaded", false,
       [](const ModelEntry& e) { return static_cast<double>(e.waiting); }},
      {"model_load_seconds", "What the last load took", false, [](const ModelEntry& e) { return e.load_seconds; }},
      {"model_loads", "Times the model was loaded", true,
       [](const ModelEntry& e) { return static_cast<double>(e.loads); }},
      {"model_unloads", "Times the model was unloaded", true,
       [](const ModelEntry& e) { return static_cast<double>(e.unloads); }},
      {"model_load_failures", "Times the model could not be loaded", true,
       [](const ModelEntry& e) { return static_cast<double>(e.failures); }},
  };
  for (const Row& row : kRows) {
    const std::string name = std::string("espalier_").append(row.name);
    row.counter ? text.counter(name, row.help) : text.gauge(name, row.help);
    for (const ModelEntry& entry : entries) text.sample(row.value(entry), {{"model_name", entry.names.front()}});
  }
}

// Of servers that have any.
void write_adapters(MetricsText& text, const Service& service) {
  const AdapterCounts counts = service.adapters.counts();
  if (counts.known == 0 && counts.loads == 0) return;
  const auto one = [&](std::string_view name, std::string_view help, bool counter, double value) {
    const std::string whole = std::string("espalier_").append(name);
    counter ? text.counter(whole, help) : text.gauge(whole, help);
    text.sample(value, {});
  };
  one("adapters", "LoRA adapters that are served", false, counts.known);
  one("adapters_loaded", "Of those, in memory", false, counts.loaded);
  one("adapter_bytes", "Memory of their weights", false, static_cast<double>(counts.bytes));
  one("adapter_loads", "Times an adapter was read", true, static_cast<double>(counts.loads));
  one("adapter_evictions", "Times one left the memory for others", true, static_cast<double>(counts.evictions));
  one("adapter_load_failures", "Times one could not be read", true, static_cast<double>(counts.failures));
}

void write_requests(MetricsText& text, const Service& service, const std::string& model) {
  text.counter("espalier_requests", "Answers by route, end and status");
  for (const auto& [labels, count] : service.metrics.requests()) {
    text.sample(static_cast<double>(count), {{"model", labels.model.empty() ? model : labels.model},
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
  if (service.options.metrics_compat != "none") {
    text.counter("sglang:num_aborted_requests", "Requests whose client left, or that were aborted");
    text.sample(static_cast<double>(service.metrics.aborted.value()), {{"model_name", model}});
  }
  text.counter("espalier_deadlines", "Requests ended by their deadline");
  text.sample(static_cast<double>(service.metrics.deadlines.value()), {});
  text.histogram("espalier_token_delivery_seconds", "Of streamed tokens: from the end of their step to the socket");
  text.samples(service.metrics.token_delivery, {});
  text.gauge("espalier_replies_open", "Requests being answered");
  text.sample(static_cast<double>(service.active()), {});
}

void write_pools(MetricsText& text, const Service& service) {
  const std::pair<const char*, const BackgroundPool*> pools[] = {
      {"text", &service.pool}, {"bulk", &service.bulk}, {"slow", &service.slow}, {"pictures", &service.pictures}};
  text.gauge("espalier_background_running", "Bodies being read, constraints compiled, pictures made ready");
  for (const auto& [name, pool] : pools) text.sample(static_cast<double>(pool->running()), {{"pool", name}});
  text.gauge("espalier_background_waiting", "Those that wait for a thread");
  for (const auto& [name, pool] : pools) text.sample(static_cast<double>(pool->waiting()), {{"pool", name}});
}

net::HttpResponse metrics(const Service& service, const net::HttpRequest& http) {
  const bool open = http.headers.get("accept").find("application/openmetrics-text") != std::string_view::npos;
  const auto format = open ? MetricsText::Format::open_metrics : MetricsText::Format::prometheus;
  MetricsText text(format);
  const auto entries = service.models.list();
  write_engines(text, service.models, service.options.metrics_compat);
  if (service.has_model()) write_models(text, entries);
  write_adapters(text, service);
  write_requests(text, service, service.has_model() ? entries.front().names.front() : std::string());
  write_pools(text, service);
  if (service.tracer) write_traces(text, *service.tracer);
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
