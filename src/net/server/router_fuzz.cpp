// Any target and method against a table of routes: refuse() and dispatch() agree, and somebody always answers.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "net/http/request_target.h"
#include "net/server/exchange.h"
#include "net/server/router.h"

namespace {

using namespace espalier::net;

void require(bool condition) {
  if (!condition) std::abort();
}

const Router& table() {
  static const Router router = [] {
    Router made;
    for (auto pattern : {"/", "/a", "/a/{id}", "/a/{id}/b", "/{x}/c", "/a/b/c", "/{x}/{y}/{z}", "/deep/{tail}"}) {
      auto handler = [](HttpRequest request, Responder responder) {
        for (const auto& [name, value] : request.path_values) require(!name.empty() && !value.empty());
        require(!request.route.empty());
        responder.respond(HttpResponse::text(200, ""));
      };
      require(made.add(Method::get, pattern, handler).ok());
      if (pattern[1] == 'a') require(made.add(Method::post, pattern, handler).ok());
    }
    return made;
  }();
  return router;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  HttpRequest request;
  request.method = static_cast<Method>(data[0] % 8);
  request.method_name = std::string(to_string(request.method));
  auto parsed = parse_request_target({reinterpret_cast<const char*>(data) + 1, size - 1}, request.method);
  if (!parsed.ok()) return 0;
  request.path = parsed->path;
  request.segments = parsed->segments;
  auto refusal = table().refuse(request);
  auto exchange = std::make_shared<Exchange>(Exchange::Settings{}, [] {});
  table().dispatch(request, Responder(exchange));
  ExchangeOutput output;
  require(exchange->take(output) && output.response);
  require(output.response->status == (refusal ? refusal->status : 200));
  return 0;
}
