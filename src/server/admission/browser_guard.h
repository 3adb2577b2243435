// browser_guard.h: keeps web pages in a user's browser from driving a server on the user's machine.
//
// A page may send a request anywhere without reading the answer ("simple" requests: POST with text/plain), with the
// browser's stored password too; and a name under the page's control may be bound to 127.0.0.1 (DNS rebinding), which
// makes the server's own answers readable. So a request that names a web origin other than the server's own is refused
// where it would do something, unless --cors-origin allows that origin; and a server without keys that only this machine
// reaches answers only to names of this machine and to those of --allowed-host. Programs send no Origin; those that are
// no web pages (app://, vscode-webview://) have other schemes than http.
// Threads: immutable, any. Fails: the refusal is the answer: 403 with code "foreign_origin" or "unknown_host".
// Source:  the Fetch standard (Origin), Fetch Metadata (Sec-Fetch-Site).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/http/error_body.h"
#include "net/http/http_types.h"

namespace espalier::server {

// What web pages may ask of this server.
class BrowserGuard {
 public:
  // `local_only`: the server listens on a loopback address and asks for no key.
  BrowserGuard(std::vector<std::string> cors_origins, std::vector<std::string> hosts, bool local_only)
      : origins_(std::move(cors_origins)), hosts_(std::move(hosts)), local_only_(local_only) {}

  // `acts`: the route does work or changes something, whatever the method.
  std::optional<net::HttpError> check(const net::HttpRequest& head, bool acts) const;

 private:
  bool is_foreign(const net::HttpRequest& head) const;
  bool knows_host(std::string_view host) const;

  std::vector<std::string> origins_, hosts_;
  bool local_only_;
};

}  // namespace espalier::server
