#include "server/prompt/mixed_prompt.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/fields/field_table.h"
#include "server/media/prepare_media.h"

namespace espalier::server {
namespace {

Result<MixedPart> parse_part(const Json& value, std::string_view place) {
  if (value.is_string()) return MixedPart(value.get<std::string>());
  if (value.is_number()) {
    ESP_TRY(const TokenId id, as_int(value, place, {0, 1e9}));
    return MixedPart(id);
  }
  return bad_request(fmt::format("{} must be a text or a token id", place), std::string(place));
}

Result<MixedPrompt> parse_prompt_object(const Json& value, std::string_view place) {
  ESP_TRY(std::string text, get_string(value, {"prompt_string", place}));
  MixedPrompt prompt{MixedPart(std::move(text))};
  const std::string media = fmt::format("{}.multimodal_data", place);
  if (const Json* given = find_field(value, "multimodal_data")) {
    ESP_TRY(auto sources, read_media_list(*given, MediaSource::Kind::picture, media));
    for (MediaSource& source : sources) prompt.emplace_back(std::move(source));
  }
  return prompt;
}

bool is_several(const Json& value) {
  if (!value.is_array() || value.empty()) return false;
  const auto is_whole = [](const Json& each) { return each.is_array() || each.is_object(); };
  if (std::ranges::any_of(value, is_whole)) return true;
  return std::ranges::all_of(value, [](const Json& each) { return each.is_string(); });
}

}  // namespace

Result<MixedPrompt> parse_mixed(const Json& value, std::string_view place) {
  MixedPrompt prompt;
  if (value.is_object()) return parse_prompt_object(value, place);
  if (!value.is_array()) {
    if (!value.is_string())
      return bad_request(fmt::format("{} must be a string, a list of token ids and strings, or a list of such", place),
                         std::string(place));
    prompt.emplace_back(value.get<std::string>());
    return prompt;
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    ESP_TRY(MixedPart part, parse_part(value[i], fmt::format("{}[{}]", place, i)));
    prompt.push_back(std::move(part));
  }
  return prompt;
}

Result<std::vector<MixedPrompt>> parse_mixed_prompts(const Json& value, std::string_view place, int most) {
  std::vector<MixedPrompt> prompts;
  if (!is_several(value)) {
    ESP_TRY(MixedPrompt prompt, parse_mixed(value, place));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  if (value.size() > static_cast<std::size_t>(most)) {
    return bad_request(
        fmt::format("{} has {} entries, but at most {} are accepted (--max-prompts)", place, value.size(), most),
        std::string(place));
  }
  for (std::size_t i = 0; i < value.size(); ++i) {
    ESP_TRY(MixedPrompt prompt, parse_mixed(value[i], fmt::format("{}[{}]", place, i)));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

namespace {

// A text and its pictures.
Result<MediaPrompt> encode_with_pictures(const Call& call, const MixedPrompt& prompt, EncodeOptions options,
                                         std::string_view place) {
  std::vector<MediaSource> sources;
  for (std::size_t i = 1; i < prompt.size(); ++i) sources.push_back(std::get<MediaSource>(prompt[i]));
  ESP_TRY(const std::vector<Prepared> media, prepare_media(call, sources));
  return encode_media_prompt(*call.model, Prompt(std::get<std::string>(prompt.front())), media, options, place);
}

}  // namespace

Result<MediaPrompt> encode_mixed(const Call& call, const MixedPrompt& prompt, EncodeOptions options,
                                 std::string_view place) {
  if (!prompt.empty() && std::holds_alternative<MediaSource>(prompt.back()))
    return encode_with_pictures(call, prompt, options, place);
  MediaPrompt made;
  const auto room = static_cast<std::size_t>(call.model->limits().context_length);
  for (std::size_t i = 0; i < prompt.size() && made.ids.size() <= room; ++i) {  // longer ones are refused as they are
    if (const auto* id = std::get_if<TokenId>(&prompt[i])) {
      made.ids.push_back(*id);
      continue;
    }
    EncodeOptions encoding = options;
    encoding.add_special = options.add_special && i == 0;
    encoding.continues = options.continues || i > 0;
    ESP_TRY(const auto more, encode_text(*call.model, std::get<std::string>(prompt[i]), encoding, place));
    made.ids.insert(made.ids.end(), more.begin(), more.end());
  }
  return made;
}

}  // namespace espalier::server
