// Control: /flush_cache, /abort_request. Who may call them: gate.h.
#include <fmt/format.h>

#include <atomic>
#include <charconv>

#include "base/log.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr double kLongestFlushWait = 3600;

// Of all models in memory. 200 only when nothing runs or waits: what is in use cannot be flushed. With a time-out that is waited for. On the
// heavy notifier, whose other completions can spare the step that a flush waits for.
class Flush final : public Completion {
 public:
  Flush(Service& service, net::HttpRequest request, net::Responder responder, std::chrono::milliseconds limit)
      : service_(service),
        request_(std::move(request)),
        responder_(std::move(responder)),
        deadline_(std::chrono::steady_clock::now() + limit) {}

  bool advance() override {
    if (responder_.closed()) return false;
    const auto flushed = flush_all();
    if (!flushed.ok() && !cancelled_ && std::chrono::steady_clock::now() < deadline_) return true;
    if (flushed.ok()) log::info("{} flushed the prefix cache", request_.id);
    respond(service_, request_, responder_,
            net::HttpResponse::text(flushed.ok() ? 200 : 400,
                                    flushed.ok() ? "Cache flushed.\n" : flushed.error().message + "\n"));
    return false;
  }
  void tick(Time) override { service_.heavy.notify(*this); }
  void failed(const char*) override {
    respond(service_, request_, responder_, Dialect::native, internal_error("the flush failed inside the server"));
  }
  void cancel(Error) override { cancelled_ = true; }

 private:
  Result<> flush_all() const {
    for (const auto& model : service_.models.look_at_all()) ESP_CHECK(model->engine->flush_cache());
    return success();
  }

  Service& service_;
  const net::HttpRequest request_;
  net::Responder responder_;
  const Time deadline_;
  std::atomic<bool> cancelled_{false};
};

// ?timeout=SECONDS; none: 0.
Result<std::chrono::milliseconds> flush_timeout(const net::HttpRequest& request) {
  const std::string* given = request.query_value("timeout");
  if (given == nullptr) return std::chrono::milliseconds(0);
  double seconds = -1;
  const char* last = given->data() + given->size();
  const auto [end, error] = std::from_chars(given->data(), last, seconds);
  if (error == std::errc() && end == last && seconds >= 0 && seconds <= kLongestFlushWait) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  }
  return bad_request(
      fmt::format("timeout is {}, but must be 0 to {} seconds", in_quotes(*given, 40), kLongestFlushWait), "timeout");
}

void flush_cache(Service& service, net::HttpRequest request, net::Responder responder) {
  const auto limit = flush_timeout(request);
  if (!limit.ok()) return respond(service, request, responder, Dialect::native, limit.error());
  service.heavy.add(std::make_shared<Flush>(service, std::move(request), std::move(responder), *limit));
}

// {"rid": "...", "abort_all": false}: every request whose id begins with rid; "" matches none unless abort_all is set.
Result<net::HttpResponse> abort_request(Call& call) {
  ESP_TRY(const auto rid, find_string(call.body, "rid"));
  ESP_TRY(const auto all, find_boolean(call.body, "abort_all"));
  int matched = 0;
  if (all.value_or(false) || (rid && !rid->empty())) {
    const std::string beginning = all.value_or(false) ? "" : *rid;
    call.service.programs.abort(beginning);  // first, so that they make no more calls
    for (const auto& model : call.service.models.look_at_all()) matched += model->engine->abort(beginning);
  }
  log::info("{} aborted {} requests", call.http.id, matched);
  for (int i = 0; i < matched; ++i) call.service.metrics.aborted.add();
  return net::HttpResponse::json(200, "");
}

}  // namespace

Result<> add_control_routes(net::Router& router, Service& service) {
  using net::Method;
  for (const Method method : {Method::get, Method::post}) {
    ESP_CHECK(router.add(method, "/flush_cache", [&service](net::HttpRequest request, net::Responder responder) {
      flush_cache(service, std::move(request), std::move(responder));
    }));
  }
  return router.add(Method::post, "/abort_request", answering(service, Dialect::native, abort_request));
}

}  // namespace espalier::server
