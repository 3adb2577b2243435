#include "server/pooling/text_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/answer/treatment.h"
#include "server/fields/request_names.h"
#include "server/media/media_reader.h"
#include "server/media/prepare_media.h"
#include "server/openai/body_fields.h"  // request_id
#include "server/prompt/chat_prompt.h"
#include "server/prompt/media_prompt.h"
#include "text/jinja/values/unicode.h"

namespace espalier::server {
namespace {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

Error empty_text(std::string_view place) {
  return bad_request(fmt::format("{} is empty or blank; send a text", place), std::string(place));
}

TextInput read_ids(const Json& value, std::string place) {
  auto ids = as_token_ids(value, place);
  if (!ids.ok()) return {std::move(place), {}, ids.error()};
  if (ids->empty()) return {place, {}, empty_text(place)};
  return {std::move(place), std::move(ids).value()};
}

TextInput read_pair(const Json& value, std::string place) {
  if (value.size() != 2 || !value[1].is_string()) {
    Error error = bad_request(fmt::format("{} must be two strings: a pair of texts", place), place);
    return {std::move(place), {}, std::move(error)};
  }
  return {std::move(place), TextPair{value[0].get<std::string>(), value[1].get<std::string>()}};
}

// A part of a message at a place of its own.
Result<> add_media(const Json& part, const std::string& place, ShownText& shown) {
  ESP_TRY(const auto media, read_media_part(part, place));
  if (!media) return bad_request(fmt::format("{} must be a part of type text, image_url or video_url", place), place);
  shown.media.push_back(part);
  shown.media.back()["field"] = place;
  return success();
}

Result<> add_part(const Json& part, const std::string& place, ShownText& shown) {
  const Json* type = part.is_object() ? find_field(part, "type") : nullptr;
  if (type == nullptr || *type != "text") return add_media(part, place, shown);
  ESP_TRY(const std::string text, get_string(part, {"text", place}));
  shown.text += shown.text.empty() ? text : "\n" + text;
  return success();
}

// What a user says and shows, behind the instruction that the body brings.
TextInput read_object(const Json& value, std::string place) {
  auto shown = read_shown_text(value, place);
  if (!shown.ok()) return {std::move(place), {}, shown.error()};
  return shown_input(std::move(shown).value(), std::move(place));
}

TextInput read_text(const Json& value, std::string place, PairsIn pairs) {
  if (value.is_object()) return read_object(value, std::move(place));
  if (value.is_string()) {
    if (is_blank(value.get_ref<const std::string&>())) return {place, {}, empty_text(place)};
    return {std::move(place), value.get<std::string>()};
  }
  if (value.is_array() && !value.empty() && value.front().is_string() && pairs == PairsIn::lists)
    return read_pair(value, std::move(place));
  if (value.is_array()) return read_ids(value, std::move(place));
  Error error = bad_request(
      fmt::format("{} must be a string, a list of token ids or an object with text or image", place), place);
  return {std::move(place), {}, std::move(error)};
}

// Encoded, with what the request has to know of it.
struct EncodedText {
  std::vector<TokenId> ids;
  PooledFields pooled;
  std::size_t cut_begin = 0, cut_end = 0;  // between which tokens may go
};

std::string in_lower_case(const std::string& text) {
  return jinja::to_case(text, jinja::Case::lower);
}

Result<EncodedText> encoded_text(const Call& call, const PooledBody& body, const TextInput& input) {
  EncodedText made;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input.text)) {
    made.ids = *ids;
    made.cut_end = ids->size();
    return made;
  }
  ESP_TRY(const Tokenizer* tokenizer, call.model->need_tokenizer(input.place));
  const PooledInfo* info = call.model->info().pooled ? &*call.model->info().pooled : nullptr;
  const bool lowers = info != nullptr && info->lower_case;
  const EncodeOptions options{.add_special = body.add_special,
                              .parse_special = !is_special_text(SpecialAsText(), call.service.options)};
  if (const auto* pair = std::get_if<TextPair>(&input.text)) {
    ESP_TRY(EncodedPair encoded, tokenizer->encode_pair(lowers ? in_lower_case(pair->first) : pair->first,
                                                        lowers ? in_lower_case(pair->second) : pair->second, options));
    made.cut_begin = encoded.second_begin;
    made.cut_end = encoded.second_begin + encoded.second;
    made.ids = std::move(encoded.ids);
    if (info != nullptr && info->has_pairs) made.pooled.second_part = encoded.second_part;
    return made;
  }
  ESP_TRY(const std::string prompt, prompt_of(*call.model, body));
  std::string text = prompt + std::get<std::string>(input.text);
  if (info != nullptr && (body.input_type == "query" || body.prompt_name == "query")) text += info->behind_query;
  if (lowers) text = in_lower_case(text);
  if (body.longest) {
    ESP_TRY(made.ids, tokenizer->encode(text, options));
  } else {
    ESP_TRY(made.ids, encode_text(*call.model, text, options, input.place));
  }
  const Marks marks = body.add_special ? marks_around(*tokenizer) : Marks();
  made.cut_begin = std::min(marks.before, made.ids.size());
  made.cut_end = made.ids.size() - std::min(marks.behind, made.ids.size());
  if (!prompt.empty() && info != nullptr && !info->pools_prompt) {
    ESP_TRY(const auto before, tokenizer->encode(lowers ? in_lower_case(prompt) : prompt, options));
    made.pooled.leave_out = static_cast<int>(before.size() - marks.behind);
  }
  return made;
}

// The end that the body says.
Result<> cut_to(std::optional<std::size_t> most, bool cut_first, EncodedText& text) {
  if (!most || text.ids.size() <= *most) return success();
  const std::size_t over = text.ids.size() - *most;
  if (over > text.cut_end - std::min(text.cut_begin, text.cut_end)) return no_room(*most, "the text");
  const auto from = text.ids.begin() + static_cast<std::ptrdiff_t>(cut_first ? text.cut_begin : text.cut_end - over);
  text.ids.erase(from, from + static_cast<std::ptrdiff_t>(over));
  if (text.pooled.second_part > 0)
    text.pooled.second_part = std::min(text.pooled.second_part, static_cast<int>(text.ids.size()));
  return success();
}

Result<RequestFields> media_request(const Call& call, const PooledBody& body, std::string id, std::vector<TokenId> ids,
                                    std::vector<PictureInput> pictures) {
  ESP_TRY(RequestFields fields, treatment(call, body, std::move(id), 0, kAnyNumber));
  fields.prompt = std::move(ids);
  fields.pictures = std::move(pictures);
  fields.pooled.emplace();
  fields.pooled->each = body.each;
  return fields;
}

// A conversation, whose system turn is the instruction that the body brings where it has none.
Result<RequestFields> chat_fields(const Call& call, const PooledBody& body, const TextChat& chat, std::string id) {
  Json asked = chat.body;
  Json& messages = asked["messages"];
  const Json* role = messages.is_array() && !messages.empty() ? find_field(messages.front(), "role") : nullptr;
  const bool has_system = role != nullptr && *role == "system";
  if (!has_system && messages.is_array() && !body.instruct.empty())
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", body.instruct}});
  if (!asked.contains("add_generation_prompt")) asked["add_generation_prompt"] = false;
  ESP_TRY(const ChatPrompt prompt, parse_chat_prompt(asked, call.service.options));
  ESP_TRY(ChatTokens tokens, encode_chat(call, prompt));
  return media_request(call, body, std::move(id), std::move(tokens.ids), std::move(tokens.pictures));
}

// A text or ids with pictures, whose marks they have.
Result<RequestFields> media_fields(const Call& call, const PooledBody& body, const Prompt& prompt,
                                   std::span<const MediaSource> sources, const std::string& place, std::string id) {
  ESP_TRY(const std::vector<Prepared> media, prepare_media(call, sources));
  const EncodeOptions options{.add_special = body.add_special,
                              .parse_special = !is_special_text(SpecialAsText(), call.service.options)};
  ESP_TRY(MediaPrompt encoded, encode_media_prompt(*call.model, prompt, media, options, place));
  return media_request(call, body, std::move(id), std::move(encoded.ids), std::move(encoded.pictures));
}

Prompt prompt_in(const TextInput& input) {
  if (const auto* text = std::get_if<std::string>(&input.text)) return *text;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input.text)) return *ids;
  return std::string();
}

// What is said and shown, as a user's turn behind the instruction that the body brings; a picture alone as its model wants.
Result<RequestFields> shown_fields(const Call& call, const PooledBody& body, const ShownText& shown,
                                   const std::string& place, std::string id) {
  const auto& info = call.model->info().pooled;
  if (info && !info->picture_prompt.empty() && shown.text.empty() && shown.media.size() == 1) {
    ESP_TRY(const auto source, read_media_part(shown.media.front(), place));
    ESP_CHECK(check_media(call, std::span(&*source, 1)));
    std::string prompt = info->picture_prompt;
    constexpr std::string_view kMark = "<image>";
    if (const auto at = prompt.find(kMark); at != prompt.npos)
      prompt.replace(at, kMark.size(), call.model->media->tokens(source->kind == MediaSource::Kind::film).mark);
    return media_fields(call, body, prompt, std::span(&*source, 1), place, std::move(id));
  }
  const Json turn = {{"role", "user"}, {"content", parts_of(shown)}};
  return chat_fields(call, body, {{{"messages", Json::array({turn})}, {"add_generation_prompt", true}}}, std::move(id));
}

Result<RequestFields> text_fields(const Call& call, const PooledBody& body, const TextInput& input, std::string id) {
  if (const auto* chat = std::get_if<TextChat>(&input.text)) return chat_fields(call, body, *chat, std::move(id));
  if (const auto* shown = std::get_if<ShownText>(&input.text)) {
    auto made = shown_fields(call, body, *shown, input.place, std::move(id));
    if (!made.ok()) return at_place(std::move(made).error(), input.place);
    return made;
  }
  if (!input.media.empty()) return media_fields(call, body, prompt_in(input), input.media, input.place, std::move(id));
  ESP_TRY(EncodedText text, encoded_text(call, body, input));
  ESP_CHECK(cut_to(most_tokens(call, body), body.cut_first, text));
  ESP_TRY(RequestFields fields, treatment(call, body, std::move(id), 0, kAnyNumber));
  fields.prompt = std::move(text.ids);
  fields.pooled = text.pooled;
  fields.pooled->each = body.each;
  return fields;
}

Result<Request> text_request(const Call& call, const PooledBody& body, const TextInput& input, std::string id,
                             std::size_t i) {
  ESP_TRY(RequestFields fields, text_fields(call, body, input, std::move(id)));
  fields.adapter = call.adapters.get(i);
  return make_request(std::move(fields), call.model->limits(), native_names(input.place));
}

PooledText one_text(const Call& call, const PooledBody& body, TextInput input, std::string id, std::size_t i) {
  PooledText text{input.place, id};
  text.error = std::move(input.error);
  if (text.error) return text;
  auto request = text_request(call, body, input, std::move(id), i);
  if (request.ok()) {
    text.tokens = static_cast<int>(request->prompt().size());
    text.request = std::move(request).value();
  } else {
    text.error = request.error();
  }
  return text;
}

}  // namespace

Result<ShownText> read_shown_text(const Json& object, const std::string& place) {
  ShownText shown;
  for (const char* const kind : {"image", "video"}) {
    const Json* media = find_field(object, kind);
    if (media == nullptr) continue;
    if (!media->is_string() && !media->is_object() && !media->is_array())
      return bad_request(fmt::format("{}.{} must be an address, or an object with url", place, kind), place);
    const std::string name = std::string(kind) + "_url";
    ESP_CHECK(add_media({{"type", name}, {name, *media}}, place, shown));
  }
  if (const Json* content = find_field(object, "content"); content != nullptr && content->is_array()) {
    for (std::size_t i = 0; i < content->size(); ++i)
      ESP_CHECK(add_part((*content)[i], fmt::format("{}.content[{}]", place, i), shown));
  } else if (const Json* type = find_field(object, "type"); type != nullptr) {
    ESP_CHECK(add_part(object, place, shown));
  } else {
    ESP_TRY(const auto text, find_string(object, {"text", place}));
    shown.text = text.value_or("");
  }
  if (is_blank(shown.text)) shown.text.clear();
  if (shown.text.empty() && shown.media.empty()) return empty_text(place);
  return shown;
}

Json parts_of(const ShownText& shown) {
  Json parts = shown.media;
  if (!shown.text.empty()) parts.push_back({{"type", "text"}, {"text", shown.text}});
  return parts;
}

TextInput shown_input(ShownText shown, std::string place) {
  if (shown.media.empty()) return {std::move(place), std::move(shown.text)};
  return {std::move(place), std::move(shown)};
}

Result<TextList> read_texts(const Json& value, std::string_view place, PairsIn pairs) {
  TextList list;
  if (value.is_array() && value.empty())
    return bad_request(fmt::format("{} is empty; send at least one text", place), std::string(place));
  if (!value.is_array() || value.front().is_number_integer()) {
    list.texts.push_back(read_text(value, std::string(place), pairs));
    return list;
  }
  if (value.size() > kMostTexts)
    return bad_request(fmt::format("{} has {} texts, but at most {} are accepted", place, value.size(), kMostTexts),
                       std::string(place));
  list.is_list = true;
  for (std::size_t i = 0; i < value.size(); ++i)
    list.texts.push_back(read_text(value[i], fmt::format("{}[{}]", place, i), pairs));
  return list;
}

Marks marks_around(const Tokenizer& tokenizer) {
  const auto plain = tokenizer.encode("a", {.add_special = false}), whole = tokenizer.encode("a");
  if (!plain.ok() || !whole.ok()) return {};
  const auto text = std::ranges::search(*whole, *plain);
  return {static_cast<std::size_t>(text.begin() - whole->begin()), static_cast<std::size_t>(whole->end() - text.end())};
}

Error at_place(Error error, const std::string& place) {
  if (error.field.starts_with("messages")) error.field = place;
  return error;
}

Error no_room(std::size_t most, std::string_view what) {
  return bad_request(fmt::format("{} tokens leave no room for what stands before and behind {}", most, what),
                     "truncate");
}

Result<std::string> prompt_of(const ServedModel& model, const PooledBody& body) {
  if (!body.prompt.empty()) return body.prompt;
  if (!model.info().pooled) return std::string();
  const PooledInfo& info = *model.info().pooled;
  const auto named = [&](std::string_view name) -> const std::string* {
    const auto found =
        std::ranges::find(info.prompts, name, [](const auto& entry) { return std::string_view(entry.first); });
    return found == info.prompts.end() ? nullptr : &found->second;
  };
  if (!body.prompt_name.empty()) {
    if (const std::string* found = named(body.prompt_name)) return *found;
    std::string known;
    for (const auto& [name, text] : info.prompts) known += (known.empty() ? "" : ", ") + name;
    return bad_request(fmt::format("prompt_name is {}, but the model has {}", in_quotes(body.prompt_name, 40),
                                   known.empty() ? "no prompts" : "these prompts: " + known),
                       "prompt_name");
  }
  if (body.input_type.empty()) {
    const std::string* usual = named(info.usual_prompt);
    return usual != nullptr ? *usual : std::string();
  }
  if (const std::string* found = named(body.input_type)) return *found;
  const auto speaks_of = [&](std::string_view word) { return body.input_type.find(word) != std::string::npos; };
  const bool asks = speaks_of("query");
  if (!asks && !speaks_of("document") && !speaks_of("passage")) {  // texts that are compared with their like
    const std::string* usual = named(info.usual_prompt);
    return usual != nullptr ? *usual : std::string();
  }
  for (const char* name :
       {asks ? "query" : "document", asks ? "search_query" : "passage", asks ? "s2p_query" : "search_document"})
    if (const std::string* found = named(name)) return *found;
  return std::string();
}

Result<std::vector<PooledText>> pooled_texts(const Call& call, const PooledBody& body, std::vector<TextInput> inputs) {
  std::vector<PooledText> texts;
  const std::size_t count = inputs.size();
  ESP_CHECK(call.adapters.check_count(count));
  texts.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    ESP_CHECK(handoff_of(call, i, count));
    texts.push_back(one_text(call, body, std::move(inputs[i]), request_id(call.http, body.rid, i, count), i));
    if (call.runs_again()) return *texts.back().error;
    name_place(texts.back(), count);
  }
  return texts;
}

}  // namespace espalier::server
