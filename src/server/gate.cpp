#include "server/gate.h"

#include "server/dialect.h"
#include "server/routes.h"

namespace espalier::server {
namespace {

// The path's segments behind --api-prefix.
std::vector<std::string> without_prefix(const std::vector<std::string>& segments, std::string_view prefix) {
  std::size_t skip = 0;
  for (std::size_t at = 0; at < prefix.size();) {
    const std::size_t end = std::min(prefix.find('/', at), prefix.size());
    if (end > at) {
      if (skip >= segments.size() || segments[skip] != prefix.substr(at, end - at)) return segments;
      ++skip;
    }
    at = end + 1;
  }
  return {segments.begin() + static_cast<std::ptrdiff_t>(skip), segments.end()};
}

net::HttpResponse unauthorized(bool page) {
  // Of every dialect's shapes the nested one: keys are checked before a route is known to exist.
  auto response = net::openai_error(
      {401, "this server needs an API key: send Authorization: Bearer KEY", "invalid_api_key", {}, 0});
  response.headers.set("WWW-Authenticate", page ? "Basic realm=\"espalier\", charset=\"UTF-8\"" : "Bearer");
  return response;
}

net::HttpResponse forbidden(std::string message) {
  return net::openai_error({403, std::move(message), "forbidden", {}, 0});
}

}  // namespace

std::optional<net::HttpResponse> Gate::check_key(const net::HttpRequest& head) const {
  const RoutePolicy policy = policy_of(without_prefix(head.segments, service_.options.api_prefix));
  const KeyRing& keys = *service_.keys;
  if (policy.access == Access::open) return std::nullopt;
  if (policy.access == Access::metrics && !service_.options.metrics_auth) return std::nullopt;
  const bool page = policy.access == Access::page;
  const Caller caller = keys.caller(head.headers, page);
  if (policy.access == Access::control && keys.wants_admin_key()) {
    if (caller == Caller::admin) return std::nullopt;
    return caller == Caller::user ? forbidden("this route needs the admin key") : unauthorized(false);
  }
  if (keys.wants_key() && caller == Caller::nobody) return unauthorized(page);
  if (policy.access == Access::control && !service_.loopback()) {
    return forbidden("control routes need --admin-api-key when the server listens beyond this machine");
  }
  return std::nullopt;
}

std::optional<net::HttpResponse> Gate::operator()(const net::HttpRequest& head) const {
  const bool preflight = head.method == net::Method::options;
  if (!preflight) {
    if (auto refusal = check_key(head)) {
      service_.metrics.refused(refusal->status == 401 ? "unauthorized" : "forbidden");
      return refusal;
    }
  }
  if (auto refusal = router_.refuse(head)) return refusal;
  const RoutePolicy policy = policy_of(without_prefix(head.segments, service_.options.api_prefix));
  if (policy.needs == Needs::nothing) return std::nullopt;
  if (policy.needs == Needs::model && service_.model() != nullptr) return std::nullopt;
  const auto ready = service_.need_model();
  if (ready.ok()) return std::nullopt;
  service_.metrics.refused(ready.error().code);
  auto response = error_response(dialect_of(head.path), ready.error(), service_.retry_after());
  response.close = ready.error().code == "draining";
  return response;
}

}  // namespace espalier::server
