// GET /openapi.json, made of the tables that read bodies. The page that browses it is one of page_routes.cpp.
#include <memory>
#include <mutex>

#include "server/openapi/openapi.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

// Made when somebody first asks: by then every route has been added.
struct OpenApiText {
  std::once_flag made;
  std::string text;
};

}  // namespace

Result<> add_openapi_routes(net::Router& router, Service& service) {
  const auto kept = std::make_shared<OpenApiText>();
  return router.add(
      net::Method::get, "/openapi.json", [&service, &router, kept](net::HttpRequest http, net::Responder responder) {
        std::call_once(kept->made,
                       [&] { kept->text = json_text(openapi_document(router, service.options.api_prefix)); });
        respond(service, http, responder, net::HttpResponse::json(200, kept->text));
      });
}

}  // namespace espalier::server
