// gate.h: what is decided from the head of a request, before a byte of its body is accepted: key, admin key, readiness.
//
// Control routes without an admin key are open on a loopback bind (SGLang's tools need them), with the API key when one
// is set; on any other bind they answer 403.
// Threads: io threads; looks at memory only.
// Fails:   the refusal is the answer: 401, 403, 404, 405, 429 of a key whose limit is reached, 503.
#pragma once

#include <optional>

#include "net/server/http_server.h"
#include "net/server/router.h"
#include "server/admission/browser_guard.h"
#include "server/service.h"

namespace espalier::server {

// The server's admission hook: refuses by key, route and readiness, or lets the body be read.
class Gate {
 public:
  Gate(Service& service, const net::Router& router);
  std::optional<net::HttpResponse> operator()(const net::HttpRequest& head) const;
  // x-ratelimit-* of a key with limits.
  static net::AnswerHeaders answer_headers(const KeyRing& keys, const net::HttpRequest& head);

 private:
  std::optional<net::HttpError> check_key(const net::HttpRequest& head) const;
  Result<> charge_key(const net::HttpRequest& head) const;
  net::HttpResponse refusal(const net::HttpRequest& head, const net::HttpError& error) const;  // counted and logged
  void log(const net::HttpRequest& head, int status, std::string_view code) const;

  Service& service_;
  const net::Router& router_;
  BrowserGuard browsers_;
};

}  // namespace espalier::server
