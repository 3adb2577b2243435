// Text to tokens and back: /tokenize, /detokenize, /apply-template and the counting of a chat prompt.
#include <fmt/format.h>

#include "server/delivery/json_writer.h"
#include "server/delivery/token_name.h"
#include "server/media/prepare_media.h"
#include "server/prompt/chat_prompt.h"
#include "server/prompt/mixed_prompt.h"
#include "server/routes/handler.h"
#include "server/routes/routes.h"

namespace espalier::server {
namespace {

constexpr std::size_t kMostIds = 4'000'000;
constexpr std::size_t kMostTextBytes = 4 << 20;  // to be tokenised at once: memory and time are many times that

void write_ids(JsonWriter& json, const std::vector<TokenId>& ids) {
  json.values(std::span<const TokenId>(ids));
}

// `tokens` and `counts`: JSON, of one text or of a list.
net::HttpResponse tokens_reply(const ServedModel& model, std::string_view tokens, std::string_view counts) {
  std::string out;
  JsonWriter json(out);
  json.open('{').key("tokens").raw(tokens).key("count").raw(counts);
  json.field("max_model_len", model.limits().context_length).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

// A piece that is no whole characters is told as its bytes.
void write_piece(JsonWriter& json, TokenId id, std::string_view bytes) {
  json.open('{').field("id", id).key("piece");
  if (is_utf8(bytes)) {
    json.value(bytes).close('}');
    return;
  }
  json.open('[');
  for (const char c : bytes) json.value(static_cast<int>(static_cast<unsigned char>(c)));
  json.close(']').close('}');
}

Error too_many_bytes(std::string_view place, std::size_t bytes) {
  return {Error::Kind::too_large,
          fmt::format("{} has {} bytes, but at most {} are tokenised at once", place, bytes, kMostTextBytes),
          std::string(place),
          {}};
}

// Without the bounds of a prompt that is to be run: a text of any length may be asked about.
Result<std::vector<TokenId>> encode_parts(const Tokenizer& tokenizer, const MixedPrompt& parts, EncodeOptions options,
                                          std::string_view place) {
  std::size_t bytes = 0;
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (const auto* id = std::get_if<TokenId>(&parts[i])) {
      ids.push_back(*id);
      continue;
    }
    if (std::holds_alternative<MediaSource>(parts[i]))
      return bad_request(fmt::format("{} has pictures; send them in messages to count them", place),
                         std::string(place));
    const auto& text = std::get<std::string>(parts[i]);
    bytes += text.size();
    if (bytes > kMostTextBytes) return too_many_bytes(place, bytes);
    EncodeOptions encoding = options;
    encoding.add_special = options.add_special && i == 0;
    encoding.continues = i > 0;
    ESP_TRY(const auto more, tokenizer.encode(text, encoding));
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

struct TokenLists {
  std::string tokens, counts;
  JsonWriter tokens_json{tokens}, counts_json{counts};

  void add(const std::vector<TokenId>& ids) {
    write_ids(tokens_json, ids);
    counts_json.value(ids.size());
  }
};

Result<> check_model(const Call& call) {
  ESP_TRY(const auto name, find_string(call.body, "model"));
  return call.check_model_name(name.value_or(""));
}

// A string or a list of strings; the empty text is a fair question here, though it is no prompt.
Result<net::HttpResponse> tokenize_texts(const Call& call, const Json& prompt) {
  ESP_TRY(const Tokenizer* tokenizer, call.model->need_tokenizer("prompt"));
  ESP_TRY(const auto special, find_boolean(call.body, "add_special_tokens"));
  SpecialAsText as_text;
  if (const Json* asked = find_field(call.body, "special_tokens_in_text")) {
    ESP_TRY(as_text, read_special_as_text(*asked, "special_tokens_in_text"));
  }
  const EncodeOptions encoding{special.value_or(true), !is_special_text(as_text, call.service.options)};
  ESP_TRY(const auto texts, as_strings(prompt, "prompt"));
  if (texts.size() > static_cast<std::size_t>(call.service.options.max_prompts)) {
    return bad_request(fmt::format("prompt has {} entries, but at most {} are accepted (--max-prompts)", texts.size(),
                                   call.service.options.max_prompts),
                       "prompt");
  }
  std::size_t bytes = 0;
  for (const auto& text : texts) bytes += text.size();
  if (bytes > kMostTextBytes) return too_many_bytes("prompt", bytes);
  TokenLists lists;
  if (prompt.is_array()) lists.tokens_json.open('['), lists.counts_json.open('[');
  for (const auto& text : texts) {
    ESP_TRY(const auto ids, tokenizer->encode(text, encoding));
    lists.add(ids);
  }
  if (prompt.is_array()) lists.tokens_json.close(']'), lists.counts_json.close(']');
  return tokens_reply(*call.model, lists.tokens, lists.counts);
}

// llama.cpp's body: texts and ids in a row, and the tokens alone in the reply.
Result<net::HttpResponse> tokenize_content(const Call& call, const Json& content) {
  ESP_TRY(const auto add, find_boolean(call.body, "add_special"));
  ESP_TRY(const auto parse, find_boolean(call.body, "parse_special"));
  ESP_TRY(const auto pieces, find_boolean(call.body, "with_pieces"));
  ESP_TRY(const MixedPrompt parts, parse_mixed(content, "content"));
  ESP_TRY(const Tokenizer* tokenizer, call.model->need_tokenizer("content"));
  ESP_TRY(const auto ids, encode_parts(*tokenizer, parts, {add.value_or(false), parse.value_or(true)}, "content"));
  std::string out;
  JsonWriter json(out);
  json.open('{').key("tokens");
  if (!pieces.value_or(false)) {
    write_ids(json, ids);
  } else {
    json.open('[');
    for (const TokenId id : ids) write_piece(json, id, tokenizer->token_bytes(id));
    json.close(']');
  }
  json.close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> tokenize(Call& call) {
  ESP_CHECK(check_model(call));
  if (const Json* content = find_field(call.body, "content")) return tokenize_content(call, *content);
  if (const Json* prompt = find_field(call.body, "prompt")) return tokenize_texts(call, *prompt);
  if (find_field(call.body, "messages") == nullptr) {
    return bad_request("prompt is missing; send prompt or messages (or content, as llama.cpp has it)", "prompt");
  }
  ESP_TRY(const ChatPrompt prompt, parse_chat_prompt(call.body, call.service.options));
  ESP_TRY(const ChatTokens chat, encode_chat(call, prompt));
  TokenLists lists;
  lists.add(chat.ids);
  return tokens_reply(*call.model, lists.tokens, lists.counts);
}

// `ids_end`: a model may give ids that its tokenizer has no text for, whose number of rows is often rounded up.
Result<std::string> decode(const Tokenizer& tokenizer, int ids_end, const Json& value, std::string_view place,
                           bool skip_special) {
  ESP_TRY(const auto ids, as_token_ids(value, place));
  if (ids.size() > kMostIds) {
    return bad_request(fmt::format("{} has {} ids, but at most {} are accepted", place, ids.size(), kMostIds),
                       std::string(place));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= ids_end) {
      return bad_request(
          fmt::format("{}[{}] is {}, but the ids of this model are 0 to {}", place, i, ids[i], ids_end - 1),
          std::string(place));
    }
  }
  return tokenizer.decode(ids, {skip_special});
}

// The value of one member of the reply: a text, or a list of them.
Result<> write_texts(JsonWriter& json, const Tokenizer& tokenizer, int ids_end, const Json& tokens, bool skip_special) {
  if (tokens.empty() || !tokens.front().is_array()) {
    ESP_TRY(const std::string text, decode(tokenizer, ids_end, tokens, "tokens", skip_special));
    json.value(text);
    return success();
  }
  json.open('[');
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ESP_TRY(const std::string text, decode(tokenizer, ids_end, tokens[i], fmt::format("tokens[{}]", i), skip_special));
    json.value(text);
  }
  json.close(']');
  return success();
}

// SGLang's "text", and llama.cpp's "content" and vLLM's "prompt", whose bodies are the same: these have special tokens,
// too.
Result<net::HttpResponse> detokenize(Call& call) {
  ESP_CHECK(check_model(call));
  ESP_TRY(const Json* tokens, get_array(call.body, "tokens"));
  ESP_TRY(const auto skip, find_boolean(call.body, "skip_special_tokens"));
  ESP_TRY(const Tokenizer* tokenizer, call.model->need_tokenizer("tokens"));
  const int ids_end = std::max(tokenizer->size(), call.model->engine->model().limits.vocabulary);
  std::string out;
  JsonWriter json(out);
  json.open('{').key("text");
  ESP_CHECK(write_texts(json, *tokenizer, ids_end, *tokens, skip.value_or(true)));
  for (const char* name : {"content", "prompt"}) {
    json.key(name);
    ESP_CHECK(write_texts(json, *tokenizer, ids_end, *tokens, false));
  }
  json.close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> apply_template(Call& call) {
  ESP_TRY(const ChatPrompt prompt, parse_chat_prompt(call.body, call.service.options));
  if (!prompt.media.empty()) ESP_CHECK(check_media(call, prompt.media));
  ESP_TRY(const ChatText text, render_chat(*call.model, prompt, false));
  std::string out;
  JsonWriter json(out);
  json.open('{').field("prompt", text.chat.text).close('}');
  return net::HttpResponse::json(200, std::move(out));
}

Result<net::HttpResponse> count_chat(Call& call) {
  ESP_CHECK(check_model(call));
  ESP_TRY(const ChatPrompt prompt, parse_chat_prompt(call.body, call.service.options));
  ESP_TRY(const ChatTokens chat, encode_chat(call, prompt));
  std::string out;
  JsonWriter json(out);
  json.open('{').field("object", "response.input_tokens").field("input_tokens", chat.ids.size()).close('}');
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
