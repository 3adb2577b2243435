// POST /models/load, /models/unload, as llama.cpp's router has them. They exist only where there is an admin key.
#include "server/delivery/json_writer.h"
#include "server/fields/field_table.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostBodyBytes = 64 * 1024;

// {"model": NAME}: not by way of Call, which would wait for the model.
Result<int> place_of(const Service& service, const net::HttpRequest& http) {
  if (http.body.size() > kMostBodyBytes) return bad_request("the body must be {\"model\": NAME}", {}, "invalid_json");
  const auto body = parse_json(http.body);
  if (!body.ok() || !body->is_object()) return bad_request("the body must be {\"model\": NAME}", {}, "invalid_json");
  ESP_TRY(const auto name, find_string(*body, "model"));
  if (!name) return bad_request("model is missing: which one is meant?", "model");
  return service.models.place_of(*name);
}

// Begun, not done: /v1/models tells when it is. Loading again may be asked for before the last request has ended.
template <class Do>
TellFunction doing(Do change) {
  return [change](Service& service, const net::HttpRequest& http) -> Result<net::HttpResponse> {
    ESP_TRY(const int place, place_of(service, http));
    ESP_CHECK(change(service.models, place));
    const ModelEntry entry = service.models.list()[static_cast<std::size_t>(place)];
    std::string out;
    JsonWriter json(out);
    json.open('{').field("success", true).field("model", entry.names.front());
    json.field("state", to_string(entry.state)).close('}');
    return net::HttpResponse::json(200, std::move(out));
  };
}

}  // namespace

Result<> add_model_routes(net::Router& router, Service& service) {
  using net::Method;
  if (!service.keys->wants_admin_key()) return success();
  ESP_CHECK(router.add(
      Method::post, "/models/load",
      telling(service, Dialect::openai, doing([](ModelSet& models, int place) { return models.load(place); }))));
  return router.add(
      Method::post, "/models/unload",
      telling(service, Dialect::openai, doing([](ModelSet& models, int place) { return models.unload(place); })));
}

}  // namespace espalier::server
