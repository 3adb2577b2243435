#include "server/prompt/chat_prompt.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/media/media_reader.h"
#include "server/media/prepare_media.h"
#include "server/prompt/chat_messages.h"
#include "server/prompt/media_prompt.h"
#include "server/service.h"

namespace espalier::server {
namespace {

using C = ChatPrompt;

// What the template gets from us; a request that set them would change what the model is told, not only how.
constexpr std::string_view kOurs[] = {"messages",
                                      "tools",
                                      "documents",
                                      "add_generation_prompt",
                                      "continue_final_message",
                                      "chat_template",
                                      "tokenize",
                                      "bos_token",
                                      "eos_token",
                                      "pad_token",
                                      "unk_token",
                                      "raise_exception",
                                      "strftime_now",
                                      "range",
                                      "dict",
                                      "namespace",
                                      "loop",
                                      "self"};

Result<> read_arguments(C& out, const Json& value, std::string_view place) {
  if (!value.is_object()) return bad_request(fmt::format("{} must be an object", place), std::string(place));
  for (const auto& [name, argument] : value.get_ref<const Json::object_t&>()) {
    if (std::find(std::begin(kOurs), std::end(kOurs), name) != std::end(kOurs)) {
      return bad_request(fmt::format("{} sets {}, which belongs to the server", place, name), std::string(place));
    }
    out.arguments[name] = argument;
  }
  return success();
}

template <Result<> (*kRead)(ThinkingFields&, const Json&, std::string_view)>
Result<> read_into_thinking(C& out, const Json& value, std::string_view place) {
  return kRead(out.thinking, value, place);
}

Result<> read_verbosity(C& out, const Json& value, std::string_view place) {
  ESP_TRY(const std::string verbosity, as_string(value, place));
  if (verbosity != "low" && verbosity != "medium" && verbosity != "high")
    return bad_request(fmt::format("{} must be low, medium or high", place), std::string(place));
  if (!out.arguments.contains("verbosity")) out.arguments["verbosity"] = verbosity;
  return success();
}

// SGLang's way to say it.
Result<> read_custom_params(C& out, const Json& value, std::string_view place) {
  if (const Json* budget = find_field(value, "thinking_budget"))
    return read_thinking_budget(out.thinking, *budget, fmt::format("{}.thinking_budget", place));
  return success();
}

constexpr FieldRow<C> kRows[] = {
    {"add_generation_prompt", &C::add_generation_prompt, "true", "end with the opening of the assistant's turn"},
    {"continue_final_message", &C::continue_final_message, "false", "leave the last message open, so that it goes on"},
    {"chat_template_kwargs", &read_arguments, "{}", "further variables of the template"},
    {"reasoning_effort", &read_into_thinking<read_effort>, "none",
     "sets reasoning_effort, thinking and enable_thinking of the template; where it reads no effort, minimal thinks "
     "for "
     "256 tokens at most, low for 1024, medium for 8192"},
    {"thinking", &read_into_thinking<read_thinking>, "none", "type: enabled, disabled; budget_tokens"},
    {"reasoning", &read_into_thinking<read_reasoning>, "none", "effort, max_tokens, enabled"},
    {"max_reasoning_tokens", &read_into_thinking<read_thinking_budget>, "--max-reasoning-tokens",
     "thinking is closed behind so many tokens; -1 = no limit"},
    {"thinking_budget", &read_into_thinking<read_thinking_budget>, "none", "the same"},
    {"thinking_token_budget", &read_into_thinking<read_thinking_budget>, "none", "the same"},
    {"max_thinking_tokens", &read_into_thinking<read_thinking_budget>, "none", "the same"},
    {"verbosity", &read_verbosity, "none", "low, medium, high: given to the template"},
    {"custom_params", &read_custom_params, "none", "thinking_budget: the same; others have no effect"},
    {"special_tokens_in_text", &read_special_tokens<C, &C::special_as_text>, "special", kSpecialTokensMeaning},
};

constexpr std::string_view kNames[] = {"messages", "tools", "tool_choice", "parallel_tool_calls"};

// A template writes 4 MiB at most (jinja/limits.h), what it adds to the messages included.
constexpr std::size_t kMostTextBytes = (std::size_t{4} << 20) - (64 << 10);

std::size_t text_bytes(const Json& content) {
  if (content.is_string()) return content.get_ref<const std::string&>().size();
  std::size_t bytes = 0;
  if (!content.is_array()) return bytes;
  for (const Json& part : content) {
    const Json* text = find_field(part, "text");
    if (text != nullptr && text->is_string()) bytes += text->get_ref<const std::string&>().size();
  }
  return bytes;
}

// Before the messages are copied and rendered.
Result<> check_message_bytes(const Json& messages) {
  if (!messages.is_array()) return success();  // said later
  std::size_t bytes = 0;
  for (const Json& message : messages) {
    if (const Json* content = find_field(message, "content")) bytes += text_bytes(*content);
  }
  if (bytes <= kMostTextBytes) return success();
  return bad_request(
      fmt::format("messages hold {} bytes of text, but a chat prompt may have {} at most", bytes, kMostTextBytes),
      "messages", "context_length_exceeded");
}

}  // namespace

std::span<const FieldRow<ChatPrompt>> chat_prompt_rows() {
  return kRows;
}
std::span<const std::string_view> chat_prompt_names() {
  return kNames;
}

void go_on_with_last_turn(Json& chat) {
  const Json& messages = chat["messages"];
  if (messages.empty()) return;
  const Json& last = messages.back();
  if (last["role"] == "assistant" && !last.contains("tool_calls")) chat["continue_final_message"] = true;
}

Result<ChatPrompt> parse_chat_prompt(const Json& body, const ServerOptions& options) {
  ChatPrompt prompt;
  const Json* messages = find_field(body, "messages");
  if (messages == nullptr) return bad_request("messages is missing", "messages");
  ESP_CHECK(check_message_bytes(*messages));
  ESP_TRY(prompt.messages, read_messages(*messages, options, prompt.media));
  ESP_TRY(prompt.tools, read_tool_fields(body, options));
  if (!options.default_chat_template_kwargs.empty()) {
    ESP_TRY(prompt.arguments, parse_json(options.default_chat_template_kwargs));
  }
  const bool says = find_field(body, "add_generation_prompt") != nullptr;
  ESP_CHECK(read_fields(body, chat_prompt_rows(), prompt));
  for (const auto& [name, argument] : prompt.thinking.arguments.get_ref<const Json::object_t&>())
    if (!prompt.arguments.contains(name)) prompt.arguments[name] = argument;
  if (prompt.continue_final_message) {
    if (says && prompt.add_generation_prompt) {
      return bad_request("continue_final_message and add_generation_prompt exclude each other",
                         "continue_final_message");
    }
    prompt.add_generation_prompt = false;
  }
  return prompt;
}

namespace {

Result<std::vector<TokenId>> encode_behind(const ServedModel& model, std::string_view text, KnownBeginning& known) {
  std::vector<TokenId> ids;
  known.used = 0;
  while (known.used < known.pieces.size() && text.starts_with(known.pieces[known.used].text)) {
    const KnownPiece& piece = known.pieces[known.used++];
    text.remove_prefix(piece.text.size());
    ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
  }
  known.rest.text = text;
  EncodeOptions encoding{.add_special = false};
  encoding.continues = known.used > 0;
  ESP_TRY(known.rest.ids, encode_text(model, text, encoding, "messages"));
  ids.insert(ids.end(), known.rest.ids.begin(), known.rest.ids.end());
  return ids;
}

}  // namespace

namespace {

// With pictures, and where the words of a conversation look like marks of pictures.
Result<ChatTokens> encode_with_media(const Call& call, const ChatPrompt& prompt, const ChatText& text, bool as_text) {
  ESP_TRY(const std::vector<Prepared> media, prepare_media(call, prompt.media));
  EncodeOptions encoding{.add_special = false};
  if (as_text) encoding.own = text.chat.own;
  ESP_TRY(MediaPrompt made, encode_marked(*call.model, {text.chat.text, text.marks}, media, encoding, "messages"));
  return ChatTokens{std::move(made.ids), std::move(made.pictures), {}};
}

}  // namespace

Result<ChatTokens> encode_chat_turn(const Call& call, const ChatPrompt& prompt, bool wants_opening,
                                    KnownBeginning* known) {
  const ServedModel& model = *call.model;
  const bool as_text = is_special_text(prompt.special_as_text, call.service.options);
  if (!prompt.media.empty()) ESP_CHECK(check_media(call, prompt.media));
  ESP_TRY(const ChatText text, render_chat(model, prompt, as_text));
  // The template writes the begin token itself where the model wants one.
  EncodeOptions encoding{.add_special = false};
  if (as_text) encoding.own = text.chat.own;
  ChatTokens tokens;
  if (!prompt.media.empty() || (model.media != nullptr && model.media->mentions_marks(text.chat.text))) {
    ESP_TRY(tokens, encode_with_media(call, prompt, text, as_text));
  } else if (known != nullptr && !as_text) {
    ESP_TRY(tokens.ids, encode_behind(model, text.chat.text, *known));
  } else {
    ESP_TRY(tokens.ids, encode_text(model, text.chat.text, encoding, "messages"));
  }
  if (wants_opening) tokens.opening = opening_of(model, prompt, text.chat.text);
  return tokens;
}

Result<ChatTokens> encode_chat(const Call& call, const ChatPrompt& prompt) {
  return encode_chat_turn(call, prompt, false);
}

}  // namespace espalier::server
