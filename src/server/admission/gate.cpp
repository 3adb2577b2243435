#include "server/admission/gate.h"

#include <ctime>

#include "server/delivery/dialect.h"
#include "server/metrics/request_log.h"
#include "server/routes/routes.h"

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

net::HttpError unauthorized() {
  return {401, "this server needs an API key: send Authorization: Bearer KEY", "invalid_api_key", {}, 0};
}

net::HttpError expired_key() {
  return {401, "this API key has expired; ask whoever runs the server for another one", "invalid_api_key", {}, 0};
}

net::HttpError forbidden(std::string message) {
  return {403, std::move(message), "forbidden", {}, 0};
}

// Reading, listing and cancelling cost nothing of a key's limits.
bool is_charged(const net::HttpRequest& head, const RoutePolicy& policy) {
  return head.method == net::Method::post && policy.access == Access::user && policy.needs == Needs::work;
}

std::string_view code_of(int status) {
  return status == 405 ? "method_not_allowed" : "route_not_found";
}

}  // namespace

Gate::Gate(Service& service, const net::Router& router)
    : service_(service),
      router_(router),
      browsers_(service.options.cors_origins, service.options.allowed_hosts,
                service.loopback() && !service.options.host.starts_with("unix:") && !service.keys->wants_key()) {}

std::optional<net::HttpError> Gate::check_key(const net::HttpRequest& head) const {
  const RoutePolicy policy = policy_of(without_prefix(head.segments, service_.options.api_prefix));
  const KeyRing& keys = *service_.keys;
  if (policy.access == Access::open) return std::nullopt;
  if (policy.access == Access::metrics && !service_.options.metrics_auth) return std::nullopt;
  const Caller caller = keys.caller(head.headers, policy.basic);
  if (caller == Caller::expired) return expired_key();
  if (policy.access == Access::control && keys.wants_admin_key()) {
    if (caller == Caller::admin) return std::nullopt;
    return caller == Caller::user ? forbidden("this route needs the admin key") : unauthorized();
  }
  if (keys.wants_key() && caller == Caller::nobody) return unauthorized();
  if (policy.access == Access::control && !service_.loopback()) {
    return forbidden("control routes need --admin-api-key when the server listens beyond this machine");
  }
  return std::nullopt;
}

Result<> Gate::charge_key(const net::HttpRequest& head) const {
  const auto account = service_.keys->account(head);
  return account ? account->take_request(steady_seconds()) : success();
}

net::AnswerHeaders Gate::answer_headers(const KeyRing& keys, const net::HttpRequest& head) {
  auto account = keys.account(head);
  if (!account || !account->limited() || account->expired(std::time(nullptr))) return {};
  return [account = std::move(account)](int status, net::Headers& headers) {
    account->tell(status, headers, steady_seconds());
  };
}

net::HttpResponse Gate::refusal(const net::HttpRequest& head, const net::HttpError& error) const {
  service_.metrics.refused(error.code);
  log(head, error.status, error.code);
  auto response = error_response(dialect_of(head.path, service_.options.api_prefix), error);
  if (error.status == 401) {
    const bool page = policy_of(without_prefix(head.segments, service_.options.api_prefix)).access == Access::page;
    response.headers.set("WWW-Authenticate", page ? "Basic realm=\"espalier\", charset=\"UTF-8\"" : "Bearer");
  }
  response.close = error.code == "draining";
  return response;
}

void Gate::log(const net::HttpRequest& head, int status, std::string_view code) const {
  if (service_.options.log_requests) log_refusal({head.id, head.path, status, 0}, code, {});
}

std::optional<net::HttpResponse> Gate::operator()(const net::HttpRequest& head) const {
  const bool preflight = head.method == net::Method::options;
  const RoutePolicy asked = policy_of(without_prefix(head.segments, service_.options.api_prefix));
  if (auto error = browsers_.check(head, asked.access == Access::control)) return refusal(head, *error);
  if (!preflight) {
    if (auto error = check_key(head)) return refusal(head, *error);
  }
  if (auto refused = router_.refuse(head)) {
    if (refused->status >= 400) log(head, refused->status, code_of(refused->status));
    return refused;
  }
  if (asked.needs == Needs::nothing) return std::nullopt;
  if (asked.needs == Needs::model && service_.has_model()) return std::nullopt;
  auto ready = service_.need_ready();
  if (ready.ok() && is_charged(head, asked)) ready = charge_key(head);
  if (ready.ok()) return std::nullopt;
  net::HttpError error = net::http_error(ready.error());
  if (error.retry_after_seconds > 0) error.retry_after_seconds = service_.retry_after();
  return refusal(head, error);
}

}  // namespace espalier::server
