#include "net/client/http_client.h"

#include <fmt/format.h>

#include <mutex>
#include <vector>

#include "net/client/transfer.h"

namespace espalier::net {
namespace {

constexpr std::size_t kKeptSessions = 8;

class WholeBody : public BodySink {
 public:
  Result<> on_head(const ClientResponse&) override { return success(); }
  Result<> on_body(std::string_view piece) override {
    text.append(piece);
    return success();
  }
  std::string text;
};

// Where a redirect leads, as the next request's target, or the reason not to go there.
Result<Transfer::Target> next_target(const Transfer::Target& from, const ClientResponse& answer) {
  ESP_TRY(Url to, resolve_url(from.url, answer.header("location")));
  if (from.url.scheme == "https" && to.scheme == "http")
    return Error{Error::Kind::network,
                 fmt::format("{} redirects from https to http ({}), which is not followed", from.url.host, to.host),
                 {},
                 {}};
  Transfer::Target next = from;
  next.with_credentials = from.with_credentials && to.origin() == from.url.origin();
  next.url = std::move(to);
  return next;
}

}  // namespace

struct HttpClientImpl {
  std::string user_agent;
  std::mutex mutex;
  std::vector<Session> idle;

  Result<Session> take() {
    {
      const std::scoped_lock lock(mutex);
      if (!idle.empty()) {
        Session session = std::move(idle.back());
        idle.pop_back();
        return session;
      }
    }
    return Session::open();
  }
  void give_back(Session session) {
    const std::scoped_lock lock(mutex);
    if (idle.size() < kKeptSessions) idle.push_back(std::move(session));
  }
};

HttpClient::HttpClient(std::string user_agent) : impl_(std::make_unique<HttpClientImpl>()) {
  impl_->user_agent = std::move(user_agent);
}
HttpClient::~HttpClient() = default;

Result<ClientResponse> HttpClient::fetch(const ClientRequest& request) {
  WholeBody body;
  ESP_TRY(ClientResponse response, stream(request, body));
  response.body = std::move(body.text);
  return response;
}

Result<ClientResponse> HttpClient::stream(const ClientRequest& request, BodySink& sink) {
  if (request.method != Method::get && request.method != Method::head && request.method != Method::post)
    return bad_request("the client sends GET, HEAD and POST", "method");
  Transfer::Target target;
  ESP_TRY(target.url, parse_url(request.url));
  target.method = request.method;
  target.follows = request.max_redirects > 0 && request.method != Method::post;
  if (request.total_timeout.count() > 0) target.deadline = Transfer::Clock::now() + request.total_timeout;

  ESP_TRY(Session session, impl_->take());
  Headers first_headers;
  for (int redirects = 0;; ++redirects) {
    Transfer transfer(request, target, impl_->user_agent, sink);
    ESP_TRY(ClientResponse response, transfer.run(session));
    if (!transfer.redirected()) {
      impl_->give_back(std::move(session));
      response.first_headers = std::move(first_headers);
      return response;
    }
    if (redirects == request.max_redirects)
      return Error{
          Error::Kind::network, fmt::format("{} redirects more than {} times", target.url.host, redirects), {}, {}};
    ESP_TRY(target, next_target(target, response));
    if (redirects == 0) first_headers = std::move(response.headers);
  }
}

Error::Kind kind_of_status(int status) {
  switch (status) {
    case 401:
      return Error::Kind::unauthorized;
    case 403:
      return Error::Kind::forbidden;
    case 404:
      return Error::Kind::not_found;
    case 408:
      return Error::Kind::timeout;
    case 413:
      return Error::Kind::too_large;
    case 422:
      return Error::Kind::unsupported;
    case 429:
      return Error::Kind::busy;
    case 499:
      return Error::Kind::cancelled;
    case 503:
    case 529:
      return Error::Kind::unavailable;
    default:
      return status >= 400 && status < 500 ? Error::Kind::bad_request : Error::Kind::network;
  }
}

Error http_status_error(const ClientResponse& response, std::string_view what) {
  const auto url = parse_url(response.url);
  std::string message =
      fmt::format("{} answered {} for {}", url.ok() ? url->host : "the server", response.status, what);
  if (const auto wait = response.header("retry-after"); !wait.empty())
    message += fmt::format("; it asks to try again after {} s", wait.substr(0, 40));
  return {kind_of_status(response.status), std::move(message), {}, {}};
}

}  // namespace espalier::net
