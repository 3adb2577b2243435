// Is it alive, is it ready, does it generate: /livez, /readyz, /ready, /ping, /health, /health_generate.
#include <fmt/format.h>

#include "server/delivery/json_writer.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

net::HttpResponse ok() {
  return net::HttpResponse::json(200, "{\"status\":\"ok\"}");
}

net::HttpResponse not_ready(const Service& service, std::string_view status, const Error& error) {
  net::HttpError http = net::http_error(error);
  http.status = 503;
  std::string out;
  JsonWriter json(out);
  json.open('{').field("status", status);
  if (status == "loading") json.field("progress", service.readiness.loading_share());
  json.key("error").open('{').field("message", http.message).field("type", http.type());
  json.key("param").null().field("code", http.code).close('}').close('}');
  auto response = net::HttpResponse::json(503, std::move(out));
  response.headers.set("Retry-After", std::to_string(service.retry_after()));
  return response;
}

net::HttpResponse readiness(Service& service) {
  const auto ready = service.need_ready();
  if (!ready.ok()) return not_ready(service, ready.error().code, ready.error());
  if (const auto seconds = service.stalled_for()) {
    return not_ready(service, "stalled",
                     {Error::Kind::unavailable,
                      fmt::format("work waits, but the last step was {:.0f} s ago", *seconds),
                      {},
                      "unavailable"});
  }
  return ok();
}

// One token was made: nothing of it is told.
class HealthReply final : public Reply {
 public:
  void add(int, TextEvent, std::string&) override {}
  void finish(std::string& out) override { out = "{\"status\":\"ok\"}"; }
};

Result<Generation> generate_one(Call& call) {
  RequestFields fields;
  fields.id = "health_" + call.http.id;
  fields.prompt = {call.model->info().bos >= 0 ? call.model->info().bos : 0};
  fields.sampling.temperature = 0;
  fields.sampling.max_new_tokens = 1;
  fields.sampling.ignore_eos = true;
  ESP_TRY(Request request, Request::make(std::move(fields), call.model->limits()));
  Generation generation;
  generation.requests.push_back(std::move(request));
  generation.reply = std::make_unique<HealthReply>();
  generation.limit_seconds = call.service.options.health_generate_timeout;
  generation.late = Error::Kind::unavailable;
  return generation;
}

}  // namespace

Result<> add_health_routes(net::Router& router, Service& service) {
  using net::Method;
  const auto add = [&](const char* path, auto answer) {
    return router.add(Method::get, path, [&service, answer](net::HttpRequest http, net::Responder responder) {
      respond(service, http, responder, answer(service));
    });
  };
  ESP_CHECK(add("/livez", [](Service&) { return ok(); }));
  for (const char* path : {"/health", "/readyz", "/ready", "/ping"}) ESP_CHECK(add(path, readiness));
  return router.add(Method::get, "/health_generate", generating_any(service, Dialect::native, generate_one));
}

}  // namespace espalier::server
