#include "server/programs/own_routes.h"

#include <mutex>

#include "base/made_up_id.h"
#include "net/http/request_target.h"
#include "server/delivery/dialect.h"
#include "server/programs/program_result.h"  // json_text

namespace espalier::server {

net::HttpRequest own_request(net::Method method, std::string_view path, std::string body, std::string id) {
  net::HttpRequest request;
  request.method = method;
  request.method_name = net::to_string(method);
  if (auto target = net::parse_request_target(path, method); target.ok()) {
    request.path = std::move(target->path);
    request.segments = std::move(target->segments);
    request.query = std::move(target->query);
  }
  request.headers.set("Content-Type", "application/json");
  request.body = std::move(body);
  request.id = std::move(id);
  request.received_at = std::chrono::steady_clock::now();
  return request;
}

void RouteDoor::close() {
  const std::unique_lock lock(mutex_);
  router_ = nullptr;
}

void RouteDoor::pass(net::HttpRequest request, net::Responder responder) const {
  const std::shared_lock lock(mutex_);
  if (router_ != nullptr) return router_->dispatch(std::move(request), std::move(responder));
  responder.respond(error_response(Dialect::openai, {Error::Kind::unavailable, "the engine was shut down", {}, {}}));
}

net::InProcessCall OwnRoutes::post(const std::string& path, Json body, std::function<void()> wake) {
  const bool names_model = body.contains("model");  // the adapter is none of that one
  for (const auto& [name, value] : treatment_.items())
    if (!body.contains(name) && !(names_model && name == "lora_path")) body[name] = value;
  net::InProcessCall call(std::move(wake));
  net::HttpRequest request = own_request(net::Method::post, prefix_ + path, json_text(body), made_up_id());
  if (tenant_) request.own_work = net::OwnWork{*tenant_, false};
  door_->pass(std::move(request), call.responder());
  return call;
}

}  // namespace espalier::server
