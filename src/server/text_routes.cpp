// Text to tokens and back: /tokenize, /detokenize, /apply-template and the counting of a chat prompt.
#include <fmt/format.h>

#include "server/chat_prompt.h"
#include "server/handler.h"
#include "server/json_writer.h"
#include "server/routes.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostIds = 4'000'000;

void write_ids(JsonWriter& json, const std::vector<TokenId>& ids) {
  json.values(std::span<const TokenId>(ids));
}

// A prompt is a string; anything else is refused as text, not guessed.
Result<std::string> text_of(const Prompt& prompt, std::string_view place) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return bad_request(fmt::format("{} must be a string or a list of strings", place), std::string(place));
}

Result<net::HttpResponse> tokenize_chat(Call& call) {
  ESP_TRY(const ChatPrompt prompt, parse_chat_prompt(call.body, call.service.options));
  ESP_TRY(const auto ids, encode_chat(*call.model, prompt));
  std::string out;
  JsonWriter json(out);
  json.open('{').key("tokens");
  write_ids(json, ids);
  json.field("count", ids.size()).field("max_model_len", call.model->limits().context_length).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> tokenize(Call& call) {
  ESP_TRY(const auto name, find_string(call.body, "model"));
  ESP_CHECK(call.model->check_name(name.value_or("")));
  const Json* prompt = find_field(call.body, "prompt");
  if (prompt == nullptr && find_field(call.body, "messages") != nullptr) return tokenize_chat(call);
  if (prompt == nullptr) return bad_request("prompt is missing; send prompt or messages", "prompt");
  ESP_TRY(const auto special, find_boolean(call.body, "add_special_tokens"));
  const EncodeOptions options{special.value_or(true), true};
  ESP_TRY(const Tokenizer* tokenizer, call.model->need_tokenizer("prompt"));
  if (prompt->is_string() && prompt->get_ref<const std::string&>().empty()) {
    // The empty text is a fair question here, though not a prompt.
    ESP_TRY(const auto ids, tokenizer->encode("", options));
    std::string out;
    JsonWriter json(out);
    json.open('{').key("tokens");
    write_ids(json, ids);
    json.field("count", ids.size()).field("max_model_len", call.model->limits().context_length).close('}');
    return net::HttpResponse::json(200, std::move(out));
  }
  ESP_TRY(const PromptList list, parse_prompts(*prompt, "prompt", call.service.options.max_prompts));
  std::string tokens, counts;
  JsonWriter tokens_json(tokens), counts_json(counts);
  if (list.is_batch) tokens_json.open('['), counts_json.open('[');
  for (const Prompt& each : list.prompts) {
    ESP_TRY(const std::string text, text_of(each, "prompt"));
    ESP_TRY(const auto ids, tokenizer->encode(text, options));
    write_ids(tokens_json, ids);
    counts_json.value(ids.size());
  }
  if (list.is_batch) tokens_json.close(']'), counts_json.close(']');
  std::string out;
  JsonWriter json(out);
  json.open('{').key("tokens").raw(tokens).key("count").raw(counts);
  json.field("max_model_len", call.model->limits().context_length).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<std::string> decode(const Tokenizer& tokenizer, const Json& value, std::string_view place, bool skip_special) {
  ESP_TRY(const auto ids, as_token_ids(value, place));
  if (ids.size() > kMostIds) {
    return bad_request(fmt::format("{} has {} ids, but at most {} are accepted", place, ids.size(), kMostIds),
                       std::string(place));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= tokenizer.size()) {
      return bad_request(fmt::format("{}[{}] is {}, but the ids of this model are 0 to {}", place, i, ids[i],
                                     tokenizer.size() - 1), std::string(place));
    }
  }
  return tokenizer.decode(ids, {skip_special});
}

Result<net::HttpResponse> detokenize(Call& call) {
  ESP_TRY(const auto name, find_string(call.body, "model"));
  ESP_CHECK(call.model->check_name(name.value_or("")));
  ESP_TRY(const Json* tokens, get_array(call.body, "tokens"));
  ESP_TRY(const auto skip, find_boolean(call.body, "skip_special_tokens"));
  ESP_TRY(const Tokenizer* tokenizer, call.model->need_tokenizer("tokens"));
  std::string out;
  JsonWriter json(out);
  json.open('{').key("text");
  if (!tokens->empty() && tokens->front().is_array()) {
    json.open('[');
    for (std::size_t i = 0; i < tokens->size(); ++i) {
      ESP_TRY(const std::string text, decode(*tokenizer, (*tokens)[i], fmt::format("tokens[{}]", i), skip.value_or(true)));
      json.value(text);
    }
    json.close(']');
  } else {
    ESP_TRY(const std::string text, decode(*tokenizer, *tokens, "tokens", skip.value_or(true)));
    json.value(text);
  }
  json.close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> apply_template(Call& call) {
  ESP_TRY(const ChatPrompt prompt, parse_chat_prompt(call.body, call.service.options));
  ESP_TRY(const std::string text, render_chat(*call.model, prompt));
  std::string out;
  JsonWriter json(out);
  json.open('{').field("prompt", text).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> count_chat(Call& call) {
  ESP_TRY(const auto name, find_string(call.body, "model"));
  ESP_CHECK(call.model->check_name(name.value_or("")));
  ESP_TRY(const ChatPrompt prompt, parse_chat_prompt(call.body, call.service.options));
  ESP_TRY(const auto ids, encode_chat(*call.model, prompt));
  std::string out;
  JsonWriter json(out);
  json.open('{').field("object", "response.input_tokens").field("input_tokens", ids.size()).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

}  // namespace

Result<> add_text_routes(net::Router& router, Service& service) {
  using net::Method;
  for (const char* prefix : {"", "/v1"}) {
    const Dialect dialect = *prefix == '\0' ? Dialect::native : Dialect::openai;
    ESP_CHECK(router.add(Method::post, fmt::format("{}/tokenize", prefix), answering(service, dialect, tokenize)));
    ESP_CHECK(router.add(Method::post, fmt::format("{}/detokenize", prefix), answering(service, dialect, detokenize)));
  }
  ESP_CHECK(router.add(Method::post, "/apply-template", answering(service, Dialect::native, apply_template)));
  return router.add(Method::post, "/v1/chat/completions/input_tokens",
                    answering(service, Dialect::openai_chat, count_chat));
}

}  // namespace espalier::server
