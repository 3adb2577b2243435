// GET /props, /slots and /lora-adapters: what llama.cpp's clients ask of a server; changing them is refused.
#include <fmt/format.h>

#include <filesystem>

#include "server/llamacpp/settings.h"
#include "server/media/media_reader.h"
#include "server/prompt/sampling_defaults.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"
#include "text/chat/chat_template.h"

namespace espalier::server {
namespace {

std::string token_text(const Tokenizer* tokenizer, std::optional<TokenId> id) {
  return tokenizer == nullptr || !id || *id < 0 ? std::string() : std::string(tokenizer->token_text(*id));
}

Result<net::HttpResponse> props(Service& service, const ServedModel& model, const net::HttpRequest&) {
  const ModelInfo& info = model.info();
  const auto chat_template = model.need_template("");
  std::string out;
  JsonWriter json(out);
  json.open('{').key("default_generation_settings").open('{').key("params");
  write_settings(json, chat_defaults(info, service.options), {});
  json.field("n_ctx", info.limits.context_length).close('}');
  json.field("total_slots", info.max_running)
      .field("model_alias", model.name())
      .field("model_ftype", info.quantisation);
  json.field("model_path", info.path).key("modalities").open('{');
  json.field("vision", model.media != nullptr).field("video", model.media != nullptr && model.media->takes_films());
  json.field("audio", false).close('}').field("media_marker", "<__media__>");
  json.field("endpoint_slots", true).field("endpoint_props", false).field("endpoint_metrics", service.options.metrics);
  json.field("chat_template", chat_template.ok() ? (*chat_template)->source() : std::string());
  const bool tools = chat_template.ok() && (*chat_template)->mentions("tools");
  json.key("chat_template_caps").open('{').field("supports_tools", tools).close('}');
  json.field("bos_token", token_text(model.tokenizer(), info.bos));
  const auto end = info.end_tokens.empty() ? std::nullopt : std::optional(info.end_tokens.front());
  json.field("eos_token", token_text(model.tokenizer(), end));
  json.field("build_info", "espalier-" ESPALIER_VERSION).field("is_sleeping", false).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

// A slot is a sequence that may run beside others.
Result<net::HttpResponse> slots(Service&, const ServedModel& model, const net::HttpRequest& http) {
  const EngineStatus status = model.engine->status();
  const int count = model.info().max_running;
  if (const auto* wanted = http.query_value("fail_on_no_slot"); wanted != nullptr && status.running >= count)
    return Error{Error::Kind::unavailable, fmt::format("all {} sequences that run at once are taken", count), {}, {}};
  std::string out;
  JsonWriter json(out);
  json.open('[');
  for (int id = 0; id < count; ++id) {
    json.open('{').field("id", id).field("n_ctx", model.limits().context_length).field("speculative", false);
    json.field("is_processing", id < status.running).close('}');
  }
  json.close(']');
  return net::HttpResponse::json(200, std::move(out));
}

// A request names its adapter (`lora`), so that none applies to all: each has a scale of 0.
Result<net::HttpResponse> adapters(Service& service, const net::HttpRequest&) {
  std::string out;
  JsonWriter json(out);
  json.open('[');
  int id = 0;
  for (const AdapterEntry& adapter : service.adapters.list())
    json.open('{')
        .field("id", id++)
        .field("path", adapter.path)
        .field("scale", 0.0)
        .field("name", adapter.name)
        .close('}');
  json.close(']');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> refuse_scales(Call&) {
  return bad_request("no adapter applies to all requests here: a request names its own, in lora or in model", "scale",
                     "unsupported_parameter");
}

Result<net::HttpResponse> refuse_props(Call&) {
  return bad_request("/props is only read here: give what it should say with the flags of `espalier serve`", {},
                     "unsupported_parameter");
}

Result<net::HttpResponse> refuse_slot(Call&) {
  return bad_request(
      "slots are neither saved nor erased: the prefix cache is shared by all requests; /flush_cache "
      "empties it, and --cache-dir keeps it across restarts",
      {}, "unsupported_parameter");
}

}  // namespace

Result<> add_props_routes(net::Router& router, Service& service) {
  using net::Method;
  constexpr Dialect dialect = Dialect::llamacpp;
  ESP_CHECK(router.add(Method::get, "/props", informing(service, dialect, props)));
  ESP_CHECK(router.add(Method::post, "/props", answering_any(service, dialect, refuse_props)));
  ESP_CHECK(router.add(Method::get, "/slots", informing(service, dialect, slots)));
  ESP_CHECK(router.add(Method::post, "/slots/{id}", answering_any(service, dialect, refuse_slot)));
  ESP_CHECK(router.add(Method::get, "/lora-adapters", telling(service, dialect, adapters)));
  return router.add(Method::post, "/lora-adapters", answering_any(service, dialect, refuse_scales));
}

}  // namespace espalier::server
