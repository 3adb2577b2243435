// Control: /flush_cache, /abort_request. Who may call them: gate.h.
#include <fmt/format.h>

#include "base/log.h"
#include "server/handler.h"
#include "server/routes.h"

namespace espalier::server {
namespace {

// 200 only when nothing runs or waits: what is in use cannot be flushed.
Result<net::HttpResponse> flush_cache(Call& call) {
  auto flushed = call.model->engine->flush_cache();
  if (!flushed) {
    auto response = net::HttpResponse::text(400, flushed.error().message + "\n");
    return response;
  }
  log::info("{} flushed the prefix cache", call.http.id);
  return net::HttpResponse::text(200, "Cache flushed.\n");
}

// {"rid": "...", "abort_all": false}: every request whose id begins with rid; "" matches none unless abort_all is set.
Result<net::HttpResponse> abort_request(Call& call) {
  ESP_TRY(const auto rid, find_string(call.body, "rid"));
  ESP_TRY(const auto all, find_boolean(call.body, "abort_all"));
  int matched = 0;
  if (all.value_or(false))
    matched = call.model->engine->abort("");
  else if (rid && !rid->empty())
    matched = call.model->engine->abort(*rid);
  log::info("{} aborted {} requests", call.http.id, matched);
  for (int i = 0; i < matched; ++i) call.service.metrics.aborted.add();
  return net::HttpResponse::json(200, "");
}

}  // namespace

Result<> add_control_routes(net::Router& router, Service& service) {
  using net::Method;
  for (const Method method : {Method::get, Method::post}) {
    ESP_CHECK(router.add(method, "/flush_cache", answering_any(service, Dialect::native, flush_cache)));
  }
  return router.add(Method::post, "/abort_request", answering(service, Dialect::native, abort_request));
}

}  // namespace espalier::server
