#include "server/prompt/prompt.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/fields/field_table.h"

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

Error wrong_shape(std::string_view place, PromptKind kind) {
  const char* wanted = kind == PromptKind::text  ? "a string or a list of strings"
                       : kind == PromptKind::ids ? "a list of token ids, or a list of such lists"
                                                 : "a string, a list of token ids, or a list of such";
  return bad_request(fmt::format("{} must be {}", place, wanted), std::string(place));
}

bool fits(const Json& prompt, PromptKind kind) {
  if (kind == PromptKind::text) return prompt.is_string();
  if (kind == PromptKind::ids) return prompt.is_array();
  return prompt.is_string() || prompt.is_array();
}

}  // namespace

Result<PromptList> parse_prompts(const Json& value, std::string_view place, int most, PromptKind kind) {
  PromptList list;
  if (value.is_string() && kind != PromptKind::ids) {
    ESP_TRY(Prompt prompt, parse_prompt(value, place));
    list.prompts.push_back(std::move(prompt));
    return list;
  }
  if (!value.is_array()) return wrong_shape(place, kind);
  if (value.empty())
    return bad_request(fmt::format("{} is empty; it needs at least one prompt", place), std::string(place));
  if (value.front().is_number() && kind != PromptKind::text) {
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
    if (!fits(element, kind)) return wrong_shape(place, kind);
    if (element.type() != value.front().type()) {
      return bad_request(fmt::format("{} mixes strings and lists of token ids; send one kind", place),
                         std::string(place));
    }
    ESP_TRY(Prompt prompt, parse_prompt(element, fmt::format("{}[{}]", place, list.prompts.size())));
    list.prompts.push_back(std::move(prompt));
  }
  return list;
}

std::int64_t prompt_room(const ServedModel& model) {
  const int further = model.limits().pools ? 0 : 1;  // a text that is not continued may fill it
  return std::min(model.limits().context_length, model.limits().pool_tokens) - further;
}

namespace {

// Tokens that prompt and output may have together.
std::size_t room_of(const ServedModel& model) {
  return static_cast<std::size_t>(prompt_room(model)) + 1;
}

Error too_long(std::size_t bytes, std::size_t least, std::size_t room, std::string_view field) {
  return bad_request(fmt::format("the prompt of {} bytes has at least {} tokens, but the context of {} leaves room for "
                                 "{} at most",
                                 bytes, least, room, room - 1),
                     std::string(field), "context_length_exceeded");
}

Result<> check_bytes(const Tokenizer& tokenizer, std::string_view text, std::size_t room, std::string_view field) {
  if (text.size() < room) return success();  // no token is made of less than a byte
  const std::size_t least = tokenizer.min_tokens(text);
  return least >= room ? Result<>(too_long(text.size(), least, room, field)) : success();
}

std::string_view beginning(std::string_view text, std::size_t bytes) {
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0u) == 0x80u) --bytes;  // at a character's border
  return text.substr(0, bytes);
}

// The beginning of a text has the tokens that it has in the whole text, but for those near the cut. So a beginning of
// twice the room shows that the whole has no room, without a look at the rest.
Result<> check_beginning(const Tokenizer& tokenizer, std::string_view text, bool parse_special, std::size_t room,
                         std::string_view field) {
  constexpr std::size_t kBytesPerToken = 16, kEdge = 64;
  for (std::size_t bytes = room * kBytesPerToken + 4096; bytes < text.size() / 2; bytes *= 2) {
    auto ids = tokenizer.encode(beginning(text, bytes), {false, parse_special});
    if (ids.ok() && ids->size() >= 2 * room + kEdge) return too_long(text.size(), room, room, field);
  }
  return success();
}

}  // namespace

Result<> check_prompt_bytes(const ServedModel& model, const Json& value, std::string_view place) {
  const Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr) return success();  // said later, and better
  const auto check = [&](const Json& text, std::string_view field) {
    if (!text.is_string()) return success();
    return check_bytes(*tokenizer, text.get_ref<const std::string&>(), room_of(model), field);
  };
  if (!value.is_array()) return check(value, place);
  for (std::size_t i = 0; i < value.size() && value[i].is_string(); ++i) {
    ESP_CHECK(check(value[i], fmt::format("{}[{}]", place, i)));
  }
  return success();
}

Result<std::vector<TokenId>> encode_text(const ServedModel& model, std::string_view text, EncodeOptions options,
                                         std::string_view field) {
  ESP_TRY(const Tokenizer* tokenizer, model.need_tokenizer(field));
  ESP_CHECK(check_bytes(*tokenizer, text, room_of(model), field));
  ESP_CHECK(check_beginning(*tokenizer, text, options.parse_special, room_of(model), field));
  auto ids = tokenizer->encode(text, options);
  if (!ids) {
    Error error = std::move(ids).error();
    error.field = field;
    return error;
  }
  return ids;
}

Result<std::vector<TokenId>> encode_prompt(const ServedModel& model, const Prompt& prompt, EncodeOptions options,
                                           std::string_view field) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return *ids;
  return encode_text(model, std::get<std::string>(prompt), options, field);
}

Result<bool> read_special_as_text(const Json& value, std::string_view place) {
  if (value == "special") return false;
  if (value == "text") return true;
  return bad_request(fmt::format("{} may be \"special\" or \"text\"", place), std::string(place));
}

bool is_special_text(const SpecialAsText& asked, const ServerOptions& options) {
  return asked.value_or(options.special_tokens_in_text == "text");
}

}  // namespace espalier::server
