// Adapters that come and go while the server runs: SGLang's POST /load_lora_adapter and /unload_lora_adapter, and vLLM's
// under /v1. They exist only where there is an admin key, or in this process.
#include <fmt/format.h>

#include "base/log.h"
#include "server/delivery/json_writer.h"
#include "server/fields/field_table.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostPathBytes = 4096;

struct AdapterBody {
  AdapterWish wish;
  bool in_place = false;  // of vLLM: one of that name gives way
};

Result<std::string> adapter_name(const Call& call) {
  ESP_TRY(const std::string name, find_short_string(call.body, "lora_name", kMostIdBytes));
  if (name.empty()) return bad_request("lora_name is missing: what is the adapter to be called?", "lora_name");
  return name;
}

// The operator's own calls (in_process.h) may name any path.
Result<AdapterBody> read_body(const Call& call) {
  AdapterBody body;
  ESP_TRY(body.wish.name, adapter_name(call));
  ESP_TRY(const std::string path, find_short_string(call.body, "lora_path", kMostPathBytes));
  if (path.empty()) return bad_request("lora_path is missing: where does the adapter lie?", "lora_path");
  ESP_TRY(const auto pinned, find_boolean(call.body, "pinned"));
  ESP_TRY(const auto in_place, find_boolean(call.body, "load_inplace"));
  ESP_TRY(const auto model, find_string(call.body, "model"));
  ESP_TRY(body.wish.place, call.service.models.place_of(model.value_or("")));
  body.wish.path = path;
  if (!call.service.in_process) {
    ESP_TRY(body.wish.path, call.service.adapters.below_folder(path));
  }
  body.wish.pinned = pinned.value_or(false);
  body.in_place = in_place.value_or(false);
  return body;
}

// It is read now, so that the answer tells whether it can be.
Result<> load(const Call& call, const AdapterBody& body) {
  ESP_CHECK(call.service.adapters.load(body.wish, *call.model, body.in_place));
  log::info("{} loaded the adapter {} from {}", call.http.id, body.wish.name, body.wish.path);
  return success();
}

Result<> unload(const Call& call) {
  ESP_TRY(const std::string name, adapter_name(call));
  ESP_CHECK(call.service.adapters.remove(name));
  log::info("{} unloaded the adapter {}", call.http.id, name);
  return success();
}

// SGLang's answer: 200 or 400, and what is there now.
net::HttpResponse told(AdapterSet& adapters, const Result<>& done) {
  std::string out;
  adapters.look();
  JsonWriter json(out);
  json.open('{').field("success", done.ok()).field("error_message", done.ok() ? std::string() : done.error().message);
  json.key("loaded_adapters").open('{');
  for (const AdapterEntry& adapter : adapters.list()) json.field(adapter.name, adapter.path);
  json.close('}').close('}');
  return net::HttpResponse::json(done.ok() ? 200 : done.error().http_status(), std::move(out));
}

Result<net::HttpResponse> load_native(Call& call) {
  auto body = read_body(call);
  if (body.ok() && !call.may_be_slow) return call.run_again_slowly();
  return told(call.service.adapters, body.ok() ? load(call, *body) : Result<>(body.error()));
}

Result<net::HttpResponse> unload_native(Call& call) {
  return told(call.service.adapters, unload(call));
}

Result<net::HttpResponse> load_openai(Call& call) {
  ESP_TRY(const AdapterBody body, read_body(call));
  if (!call.may_be_slow) return call.run_again_slowly();
  ESP_CHECK(load(call, body));
  return net::HttpResponse::text(200, fmt::format("Success: LoRA adapter '{}' added successfully.", body.wish.name));
}

Result<net::HttpResponse> unload_openai(Call& call) {
  ESP_CHECK(unload(call));
  ESP_TRY(const std::string name, adapter_name(call));
  return net::HttpResponse::text(200, fmt::format("Success: LoRA adapter '{}' removed successfully.", name));
}

}  // namespace

Result<> add_adapter_routes(net::Router& router, Service& service) {
  using net::Method;
  if (!service.in_process && !service.keys->wants_admin_key()) return success();
  ESP_CHECK(router.add(Method::post, "/load_lora_adapter",
                       answering(service, Dialect::native, load_native, AdapterUse::none)));
  ESP_CHECK(router.add(Method::post, "/unload_lora_adapter",
                       answering(service, Dialect::native, unload_native, AdapterUse::none)));
  ESP_CHECK(router.add(Method::post, "/v1/load_lora_adapter",
                       answering(service, Dialect::openai, load_openai, AdapterUse::none)));
  return router.add(Method::post, "/v1/unload_lora_adapter",
                    answering(service, Dialect::openai, unload_openai, AdapterUse::none));
}

}  // namespace espalier::server
