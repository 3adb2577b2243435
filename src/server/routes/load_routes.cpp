// How busy the server is, for routers before a fleet: /get_load and /v1/loads, as SGLang tells it.
#include <algorithm>

#include "server/delivery/json_writer.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

// The one rank that there is. num_tokens: held by requests that run, and of the prompts that wait.
void write_load(JsonWriter& json, const ServedModel& model, const EngineStatus& status) {
  const std::int64_t used = status.pool_tokens - status.free_tokens - status.cached_tokens;
  const auto pool = static_cast<double>(std::max(status.pool_tokens, 1));
  json.open('{').field("dp_rank", 0).field("num_reqs", status.running + status.waiting);
  json.field("num_running_reqs", status.running).field("num_waiting_reqs", status.waiting);
  json.field("num_total_reqs", status.running + status.waiting);
  json.field("num_tokens", used + status.waiting_tokens).field("num_used_tokens", used);
  json.field("max_total_num_tokens", status.pool_tokens).field("token_usage", static_cast<double>(used) / pool);
  json.field("gen_throughput", status.tokens_per_second);
  json.field("max_running_requests", model.info().max_running).close('}');
}

Result<net::HttpResponse> list_loads(Service&, const ServedModel& model, const net::HttpRequest&) {
  std::string out;
  JsonWriter json(out);
  json.open('[');
  write_load(json, model, model.engine->status());
  json.close(']');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> tell_loads(Service&, const ServedModel& model, const net::HttpRequest&) {
  const EngineStatus status = model.engine->status();
  std::string out;
  JsonWriter json(out);
  json.open('{').field("version", ESPALIER_VERSION).field("dp_rank_count", 1).key("loads").open('[');
  write_load(json, model, status);
  json.close(']').key("aggregate").open('{');
  json.field("total_running_reqs", status.running).field("total_waiting_reqs", status.waiting);
  json.field("total_reqs", status.running + status.waiting).close('}').close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_load_routes(net::Router& router, Service& service) {
  using net::Method;
  ESP_CHECK(router.add(Method::get, "/get_load", informing(service, Dialect::native, list_loads)));
  return router.add(Method::get, "/v1/loads", informing(service, Dialect::native, tell_loads));
}

}  // namespace espalier::server
