// cors.h: which web pages of other origins may read our answers. Off unless origins are listed.
//
// "*" answers every origin, but then never with credentials; a listed origin is echoed, with credentials allowed.
// Threads: immutable after construction, any. Fails: never; a request without a matching Origin is left as it is.
// Source:  the Fetch standard, section "CORS protocol".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http/http_types.h"

namespace espalier::net {

// The origins that may read answers, and the headers that tell them so.
class Cors {
 public:
  Cors() = default;
  explicit Cors(std::vector<std::string> origins);

  bool enabled() const { return any_ || !origins_.empty(); }
  // The answer to a preflight (OPTIONS with Origin and Access-Control-Request-Method); it needs no key, for browsers
  // send none. nullopt: it is not one, or the origin is not listed.
  std::optional<HttpResponse> preflight(const HttpRequest& head) const;
  // Adds what lets a page of `origin` read a response.
  void decorate(std::string_view origin, Headers& headers) const;

 private:
  bool allowed(std::string_view origin) const;

  std::vector<std::string> origins_;
  bool any_ = false;
};

}  // namespace espalier::net
