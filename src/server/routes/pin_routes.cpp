// Pins: /v1/cache/pin, /v1/cache/pins, /v1/cache/unpin. Who may call them: gate.h.
#include <fmt/format.h>

#include "server/answer/treatment.h"
#include "server/media/prepare_media.h"
#include "server/openai/body_fields.h"  // cache_scope
#include "server/prompt/chat_prompt.h"
#include "server/prompt/media_prompt.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

void write_pin(JsonWriter& json, const PinInfo& pin) {
  json.open('{').field("id", pin.id).field("object", "cache.pin").field("tokens", pin.tokens).key("seconds_left");
  if (pin.seconds_left)
    json.value(*pin.seconds_left);
  else
    json.null();
  json.close('}');
}

// The prefix as text, ids or messages, as the requests that will use it bring theirs: rendered and encoded the same
// way.
Result<MediaPrompt> prefix_of(const Call& call) {
  const Json* text = find_field(call.body, "text");
  const Json* ids = find_field(call.body, "input_ids");
  const Json* messages = find_field(call.body, "messages");
  if ((text != nullptr) + (ids != nullptr) + (messages != nullptr) != 1)
    return bad_request("send the prefix as exactly one of text, input_ids and messages", "text");
  if (messages != nullptr) {
    ESP_TRY(const ChatPrompt prompt, parse_chat_prompt(call.body, call.service.options));
    ESP_TRY(ChatTokens tokens, encode_chat(call, prompt));
    return MediaPrompt{std::move(tokens.ids), std::move(tokens.pictures), {}};
  }
  const char* field = text != nullptr ? "text" : "input_ids";
  const Json& value = text != nullptr ? *text : *ids;
  if (text != nullptr) ESP_CHECK(check_prompt_bytes(*call.model, value, field));
  ESP_TRY(const PromptList list, parse_prompts(value, field, 1, text != nullptr ? PromptKind::text : PromptKind::ids));
  SpecialAsText as_text;
  if (const Json* asked = find_field(call.body, "special_tokens_in_text")) {
    ESP_TRY(as_text, read_special_as_text(*asked, "special_tokens_in_text"));
  }
  const EncodeOptions encoding{.parse_special = !is_special_text(as_text, call.service.options)};
  ESP_TRY(const std::vector<MediaSource> sources, read_native_media(call.body));
  ESP_TRY(const std::vector<Prepared> media, prepare_media(call, sources));
  return encode_media_prompt(*call.model, list.prompts.front(), media, encoding, field);
}

// Pins the prefix once a request has computed it.
class Pinning final : public RequestObserver {
 public:
  Pinning(std::shared_ptr<ServedModel> model, PinWish wish, std::shared_ptr<PinInfo> made)
      : model_(std::move(model)), wish_(std::move(wish)), made_(std::move(made)) {}
  void token(int, TokenId) override {}
  Result<> ended() override {
    ESP_TRY(*made_, model_->engine->pin(std::move(wish_)));
    return success();
  }

 private:
  const std::shared_ptr<ServedModel> model_;
  PinWish wish_;
  const std::shared_ptr<PinInfo> made_;
};

class PinReply final : public Reply {
 public:
  explicit PinReply(std::shared_ptr<PinInfo> made) : made_(std::move(made)) {}
  void add(int, TextEvent, std::string&) override {}
  void finish(std::string& out) override {
    JsonWriter json(out);
    write_pin(json, *made_);
  }

 private:
  const std::shared_ptr<PinInfo> made_;
};

// {"text" | "input_ids" | "messages", "image_data", "video_data", "id", "cache_salt", "extra_key", "seconds"}
Result<Generation> pin(Call& call) {
  PinWish wish;
  ESP_TRY(wish.id, find_short_string(call.body, "id", kMostIdBytes));
  ESP_TRY(const std::string salt, find_short_string(call.body, "cache_salt", kMostSaltBytes));
  ESP_TRY(const std::string extra, find_short_string(call.body, "extra_key", kMostSaltBytes));
  ESP_TRY(const auto seconds, find_number(call.body, "seconds", {0, 1e9}));
  ESP_TRY(const auto name, find_string(call.body, "model"));
  ESP_CHECK(call.check_model_name(name.value_or("")));
  ESP_TRY(MediaPrompt prefix, prefix_of(call));
  wish.tokens = std::move(prefix.ids);
  wish.pictures = std::move(prefix.pictures);
  if (const int most = call.model->limits().pool_tokens / 2; static_cast<std::int64_t>(wish.tokens.size()) > most)
    return bad_request(fmt::format("the prefix has {} tokens, but at most {} (half of the pool) may be pinned",
                                   wish.tokens.size(), most),
                       "text", "pins_full");
  wish.seconds = seconds.value_or(0);

  RequestFields fields;
  fields.id = call.http.id;
  fields.prompt = wish.tokens;
  fields.pictures = wish.pictures;
  fields.scope = cache_scope(call.service, call.http, salt, extra);
  fields.adapter = call.adapters.get();
  wish.scope = Request::scope_of(fields);
  fields.sampling.max_new_tokens = 0;
  ESP_TRY(Request request, Request::make(std::move(fields), call.model->limits()));
  Generation generation;
  generation.requests.push_back(std::move(request));
  const auto made = std::make_shared<PinInfo>();
  generation.reply = std::make_unique<PinReply>(made);
  generation.observer = std::make_unique<Pinning>(call.model, std::move(wish), made);
  return generation;
}

Result<net::HttpResponse> list_pins(Call& call) {
  std::string out;
  JsonWriter json(out);
  json.open('{').field("object", "list").key("data").open('[');
  for (const PinInfo& pin : call.model->engine->pins()) write_pin(json, pin);
  json.close(']').close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> unpin(Call& call) {
  ESP_TRY(const std::string id, find_short_string(call.body, "id", kMostIdBytes));
  if (id.empty()) return bad_request("id is missing", "id");
  ESP_CHECK(call.model->engine->unpin(id));
  std::string out;
  JsonWriter(out).open('{').field("id", id).field("released", true).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_pin_routes(net::Router& router, Service& service) {
  using net::Method;
  ESP_CHECK(router.add(Method::post, "/v1/cache/pin", generating(service, Dialect::openai, pin)));
  ESP_CHECK(router.add(Method::get, "/v1/cache/pins", answering_any(service, Dialect::openai, list_pins)));
  return router.add(Method::post, "/v1/cache/unpin", answering(service, Dialect::openai, unpin));
}

}  // namespace espalier::server
