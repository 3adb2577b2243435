// The chat page at /: one file without outside resources, embedded when the program is built (server.cmake).
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr unsigned char kPage[] = {
#include "chat_page_bytes.inc"
};

net::HttpResponse page() {
  net::HttpResponse response;
  response.headers.set("Content-Type", "text/html; charset=utf-8");
  response.headers.set("Cache-Control", "no-cache");
  // Nothing from elsewhere is loaded, sent to, or allowed to frame the page.
  response.headers.set("Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                       "img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.body.assign(reinterpret_cast<const char*>(kPage), sizeof kPage);
  return response;
}

}  // namespace

Result<> add_page_routes(net::Router& router, Service& service) {
  return router.add(net::Method::get, "/", [&service](net::HttpRequest http, net::Responder responder) {
    respond(service, http, responder, page());
  });
}

}  // namespace espalier::server
