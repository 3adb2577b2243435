// GET /openapi.json, made of the tables that read bodies, and GET /docs, a page that browses it.
#include <memory>
#include <mutex>

#include "server/openapi/openapi.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr unsigned char kDocsPage[] = {
#include "docs_page_bytes.inc"
};

// Made when somebody first asks: by then every route has been added.
struct Document {
  std::once_flag made;
  std::string text;
};

net::HttpResponse docs_page() {
  net::HttpResponse response;
  response.headers.set("Content-Type", "text/html; charset=utf-8");
  response.headers.set("Cache-Control", "no-cache");
  response.headers.set(
      "Content-Security-Policy",
      "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
      "frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.body.assign(reinterpret_cast<const char*>(kDocsPage), sizeof kDocsPage);
  return response;
}

}  // namespace

Result<> add_openapi_routes(net::Router& router, Service& service) {
  using net::Method;
  auto document = std::make_shared<Document>();
  ESP_CHECK(router.add(
      Method::get, "/openapi.json", [&service, &router, document](net::HttpRequest http, net::Responder responder) {
        std::call_once(document->made,
                       [&] { document->text = json_text(openapi_document(router, service.options.api_prefix)); });
        respond(service, http, responder, net::HttpResponse::json(200, document->text));
      }));
  return router.add(Method::get, "/docs", [&service](net::HttpRequest http, net::Responder responder) {
    respond(service, http, responder, docs_page());
  });
}

}  // namespace espalier::server
