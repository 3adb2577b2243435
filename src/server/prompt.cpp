#include "server/prompt.h"

#include <fmt/format.h>

#include "server/field_table.h"

namespace espalier::server {
namespace {

Result<Prompt> parse_prompt(const Json& value, std::string_view place) {
  if (value.is_string()) {
    Prompt text = value.get<std::string>();
    if (std::get<std::string>(text).empty()) {
      return bad_request(fmt::format("{} is empty; it needs at least one character", place), std::string(place));
    }
    return text;
  }
  ESP_TRY(auto ids, as_token_ids(value, place));
  if (ids.empty()) {
    return bad_request(fmt::format("{} is empty; it needs at least one token", place), std::string(place));
  }
  return Prompt(std::move(ids));
}

Error wrong_shape(std::string_view place) {
  return bad_request(fmt::format("{} must be a string, a list of token ids, or a list of such", place),
                     std::string(place));
}

}  // namespace

Result<PromptList> parse_prompts(const Json& value, std::string_view place, int most) {
  PromptList list;
  if (value.is_string()) {
    ESP_TRY(Prompt prompt, parse_prompt(value, place));
    list.prompts.push_back(std::move(prompt));
    return list;
  }
  if (!value.is_array()) return wrong_shape(place);
  if (value.empty())
    return bad_request(fmt::format("{} is empty; it needs at least one prompt", place), std::string(place));
  if (value.front().is_number()) {
    ESP_TRY(Prompt prompt, parse_prompt(value, place));
    list.prompts.push_back(std::move(prompt));
    return list;
  }
  list.is_batch = true;
  if (value.size() > static_cast<std::size_t>(most)) {
    return bad_request(
        fmt::format("{} has {} entries, but at most {} are accepted (--max-prompts)", place, value.size(), most),
        std::string(place));
  }
  for (const Json& element : value) {
    if (!element.is_string() && !element.is_array()) return wrong_shape(place);
    if (element.type() != value.front().type()) {
      return bad_request(fmt::format("{} mixes strings and lists of token ids; send one kind", place),
                         std::string(place));
    }
    ESP_TRY(Prompt prompt, parse_prompt(element, fmt::format("{}[{}]", place, list.prompts.size())));
    list.prompts.push_back(std::move(prompt));
  }
  return list;
}

Result<std::vector<TokenId>> encode_text(const ServedModel& model, std::string_view text, EncodeOptions options,
                                         std::string_view field) {
  ESP_TRY(const Tokenizer* tokenizer, model.need_tokenizer(field));
  const std::size_t least = tokenizer->min_tokens(text.size());
  const auto context = static_cast<std::size_t>(model.limits().context_length);
  if (least >= context) {
    return bad_request(
        fmt::format("the prompt of {} bytes has at least {} tokens, but the context of {} leaves room for "
                    "{} at most",
                    text.size(), least, context, context - 1),
        std::string(field), "context_length_exceeded");
  }
  auto ids = tokenizer->encode(text, options);
  if (!ids) {
    Error error = std::move(ids).error();
    error.field = field;
    return error;
  }
  return ids;
}

Result<std::vector<TokenId>> encode_prompt(const ServedModel& model, const Prompt& prompt, std::string_view field) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return *ids;
  return encode_text(model, std::get<std::string>(prompt), {}, field);
}

}  // namespace espalier::server
