#include "text/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/json/json_fields.h"

namespace espalier {
namespace {

constexpr std::array kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                               "pad_token", "cls_token", "mask_token"};

// A token is written as its text, or as an object with the text under "content".
Result<std::optional<std::string>> token_text(const Json& value, const std::string& name) {
  if (value.is_null()) return std::optional<std::string>();
  if (value.is_string()) return std::optional(value.get<std::string>());
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return std::optional(value["content"].get<std::string>());
  return bad_file("tokenizer_config.json: " + name + " must be a string or an object with a string \"content\"", name);
}

bool flag(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

void list_once(std::vector<ListedToken>& listed, ListedToken token) {
  const auto same = [&](const ListedToken& other) { return other.text == token.text; };
  const auto known = std::find_if(listed.begin(), listed.end(), same);
  if (known == listed.end()) {
    if (!token.text.empty()) listed.push_back(std::move(token));
  } else if (!known->id) {
    known->id = token.id;
  }
}

Result<> add_named(TokenizerConfig& all, const Json& object) {
  if (!object.is_object()) return success();
  for (const char* name : kNames) {
    if (!object.contains(name) || all.find(name)) continue;
    ESP_TRY(const auto text, token_text(object[name], name));
    if (text) all.special.emplace_back(name, *text);
  }
  for (const char* name : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!object.contains(name) || !object[name].is_array()) continue;
    for (const Json& token : object[name]) {
      ESP_TRY(const auto text, token_text(token, name));
      if (text) list_once(all.listed, {.text = *text});
    }
  }
  return success();
}

// {"151643": {"content": "<|endoftext|>", "special": true, ...}, ...}, in the order of ids.
Result<> add_decoder(TokenizerConfig& all, const Json& object) {
  if (!object.is_object() || !object.contains("added_tokens_decoder")) return success();
  const Json& decoder = object["added_tokens_decoder"];
  if (!decoder.is_object())
    return bad_file("tokenizer_config.json: added_tokens_decoder must be an object", "added_tokens_decoder");
  std::vector<std::pair<std::uint64_t, ListedToken>> tokens;
  for (const auto& [id, token] : decoder.items()) {
    const bool digits =
        !id.empty() && id.size() <= 9 && std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || !token.is_object() || !token.contains("content") || !token["content"].is_string())
      return bad_file("tokenizer_config.json: added_tokens_decoder[\"" + id +
                          "\"] must be an object with a string \"content\" under a decimal id",
                      "added_tokens_decoder");
    tokens.emplace_back(std::stoull(id),
                        ListedToken{token["content"].get<std::string>(), flag(token, "single_word"),
                                    flag(token, "lstrip"), flag(token, "rstrip"), flag(token, "normalized"),
                                    flag(token, "special"), static_cast<std::int64_t>(std::stoull(id))});
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [id, token] : tokens) list_once(all.listed, std::move(token));
  return success();
}

// added_tokens.json: {"<tool>": 1202}
Result<> add_map(TokenizerConfig& all, const Json& object) {
  if (!object.is_object()) return success();
  std::vector<std::pair<std::int64_t, std::string>> tokens;
  for (const auto& [text, id] : object.items()) {
    if (!id.is_number_integer())
      return bad_file("added_tokens.json: the id of \"" + text + "\" must be an integer", text);
    tokens.emplace_back(id.get<std::int64_t>(), text);
  }
  std::sort(tokens.begin(), tokens.end());
  for (auto& [id, text] : tokens) list_once(all.listed, {.text = std::move(text), .special = false, .id = id});
  return success();
}

}  // namespace

Result<TokenizerConfig> TokenizerConfig::parse(const Json& config, const Json& map, const Json& added) {
  TokenizerConfig all;
  ESP_CHECK(add_decoder(all, config));
  ESP_CHECK(add_named(all, config));
  ESP_CHECK(add_named(all, map));
  for (const auto& [name, text] : all.special) list_once(all.listed, {.text = text});
  ESP_CHECK(add_map(all, added));
  return all;
}

const std::string* TokenizerConfig::find(std::string_view name) const {
  for (const auto& [key, text] : special)
    if (key == name) return &text;
  return nullptr;
}

}  // namespace espalier
