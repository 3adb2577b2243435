// How busy the server is, for routers before a fleet: /get_load and /v1/loads, as SGLang tells it.
#include <algorithm>

#include "server/delivery/json_writer.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

// The one rank that there is, with all models in memory. num_tokens: held by requests that run, and of the prompts that
// wait.
struct Load {
  std::int64_t running = 0, waiting = 0, used = 0, pool = 0, waiting_tokens = 0, most_running = 0;
  double throughput = 0;
};

Load load_of(const Service& service) {
  Load load;
  for (const auto& model : service.models.look_at_all()) {
    const EngineStatus status = model->engine->status();
    load.running += status.running;
    load.waiting += status.waiting;
    load.used += status.pool_tokens - status.free_tokens - status.cached_tokens;
    load.pool += status.pool_tokens;
    load.waiting_tokens += status.waiting_tokens;
    load.throughput += status.tokens_per_second;
    load.most_running += model->info().max_running;
  }
  return load;
}

void write_load(JsonWriter& json, const Load& load) {
  const auto pool = static_cast<double>(std::max<std::int64_t>(load.pool, 1));
  json.open('{').field("dp_rank", 0).field("num_reqs", load.running + load.waiting);
  json.field("num_running_reqs", load.running).field("num_waiting_reqs", load.waiting);
  json.field("num_total_reqs", load.running + load.waiting);
  json.field("num_tokens", load.used + load.waiting_tokens).field("num_used_tokens", load.used);
  json.field("max_total_num_tokens", load.pool).field("token_usage", static_cast<double>(load.used) / pool);
  json.field("gen_throughput", load.throughput);
  json.field("max_running_requests", load.most_running).close('}');
}

Result<net::HttpResponse> list_loads(Service& service, const net::HttpRequest&) {
  std::string out;
  JsonWriter json(out);
  json.open('[');
  write_load(json, load_of(service));
  json.close(']');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> tell_loads(Service& service, const net::HttpRequest&) {
  const Load load = load_of(service);
  std::string out;
  JsonWriter json(out);
  json.open('{').field("version", ESPALIER_VERSION).field("dp_rank_count", 1).key("loads").open('[');
  write_load(json, load);
  json.close(']').key("aggregate").open('{');
  json.field("total_running_reqs", load.running).field("total_waiting_reqs", load.waiting);
  json.field("total_reqs", load.running + load.waiting).close('}').close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_load_routes(net::Router& router, Service& service) {
  using net::Method;
  ESP_CHECK(router.add(Method::get, "/get_load", telling(service, Dialect::native, list_loads)));
  return router.add(Method::get, "/v1/loads", telling(service, Dialect::native, tell_loads));
}

}  // namespace espalier::server
