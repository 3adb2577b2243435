#include "text/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "text/jinja/values/unicode.h"

namespace espalier {
namespace {

// Marks the end of the message that is to be continued, while the template is applied. Hugging Face's own word, because
// templates that cut or change the text show it.
constexpr std::string_view kMark = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kMarkWithoutSpace = kMark.substr(0, kMark.size() - 1);

// Names under which messages carry reasoning, the standard one first.
constexpr std::array kReasoning = {"reasoning_content", "thinking", "reasoning"};

// What a request must not set: the conversation itself, and the functions that templates rely on.
constexpr std::array kReserved = {"messages",
                                  "tools",
                                  "documents",
                                  "add_generation_prompt",
                                  "continue_final_message",
                                  "chat_template",
                                  "raise_exception",
                                  "strftime_now",
                                  "namespace",
                                  "range",
                                  "dict",
                                  "cycler",
                                  "joiner",
                                  "loop",
                                  "self",
                                  "caller"};

Error refused(std::string message) {
  return bad_request(std::move(message), "messages", "template_error");
}

Result<> check_array(const Json* value, const char* name, bool required) {
  if (!value || value->is_null()) {
    if (required) return bad_request(std::string(name) + " is missing", name);
    return success();
  }
  if (!value->is_array())
    return bad_request(std::string(name) + " must be an array, not " + std::string(type_name(*value)), name);
  for (std::size_t i = 0; i < value->size(); ++i) {
    if ((*value)[i].is_object()) continue;
    const std::string place = std::string(name) + "[" + std::to_string(i) + "]";
    return bad_request(place + " must be an object, not " + std::string(type_name((*value)[i])), place);
  }
  return success();
}

Result<> check_kwargs(const Json* kwargs, const SpecialTokens& special) {
  if (!kwargs || kwargs->is_null()) return success();
  if (!kwargs->is_object())
    return bad_request("chat_template_kwargs must be an object, not " + std::string(type_name(*kwargs)),
                       "chat_template_kwargs");
  for (const auto& [name, value] : kwargs->items()) {
    const auto same = [&, key = std::string_view(name)](const auto& token) { return token.first == key; };
    const bool reserved = std::find(kReserved.begin(), kReserved.end(), std::string_view(name)) != kReserved.end() ||
                          name.ends_with("_token") || std::any_of(special.begin(), special.end(), same);
    if (reserved)
      return bad_request("chat_template_kwargs must not set " + in_quotes(name) + ", which the server sets",
                         "chat_template_kwargs." + name);
  }
  return success();
}

bool carries_reasoning(const Json& message) {
  return std::any_of(kReasoning.begin(), kReasoning.end(),
                     [&](const char* name) { return message.contains(name) && !message[name].is_null(); });
}

// Templates read reasoning under one of two names: both are filled in from whichever is there. As in Hugging Face, the
// name that was missing comes first ("thinking") or last ("reasoning_content") in the message.
Json with_reasoning_names(const Json& message) {
  const Json* reasoning = nullptr;
  for (const char* name : kReasoning)
    if (!reasoning && message.contains(name) && !message[name].is_null()) reasoning = &message[name];
  Json all = Json::object();
  all["thinking"] = *reasoning;
  for (const auto& [name, value] : message.items()) all[name] = value;
  all["reasoning_content"] = *reasoning;
  return all;
}

// The text that is to be continued, after the mark was put behind it in `message`.
Result<std::string> mark_end(Json& message) {
  if (!message.contains("content") || message["content"].is_null())
    return refused("continue_final_message is set but the final message has no \"content\" to continue");
  Json& content = message["content"];
  Json* text = content.is_string() ? &content : nullptr;
  if (content.is_array()) {
    for (Json& part : content)
      if (part.is_object() && part.contains("text") && part["text"].is_string()) text = &part["text"];
  }
  if (!text)
    return refused("continue_final_message is set but we could not find any text to continue in the final message");
  std::string original = text->get<std::string>();
  *text = original + std::string(kMark);
  return original;
}

bool has(std::string_view text, std::string_view part) {
  return part.empty() || memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

// The rendering up to the mark. A template that trims the message leaves the mark without its space; then white space
// before it goes too.
Result<std::string> cut_at_mark(std::string rendered, std::string_view final_message) {
  const std::string_view trimmed = jinja::trim_left(jinja::trim_right(final_message));
  if (!has(rendered, trimmed) || !has(rendered, kMarkWithoutSpace)) {
    return refused(
        "continue_final_message is set but the final message does not appear in the chat after applying the chat "
        "template! "
        "This can happen if the chat template deletes portions of the final message.");
  }
  const std::size_t place = rendered.rfind(kMarkWithoutSpace);
  const bool space_kept = rendered.compare(place, kMark.size(), kMark) == 0;
  rendered.resize(place);
  if (!space_kept) rendered.resize(jinja::trim_right(rendered).size());
  return rendered;
}

std::vector<TextRange> ranges_of(std::string_view own) {
  std::vector<TextRange> ranges;
  for (std::size_t at = 0; at < own.size();) {
    const std::size_t begin = own.find('\1', at);
    if (begin == own.npos) break;
    at = std::min(own.find('\0', begin), own.size());
    ranges.push_back({begin, at});
  }
  return ranges;
}

void cut_ranges(std::vector<TextRange>& ranges, std::size_t size) {
  while (!ranges.empty() && ranges.back().begin >= size) ranges.pop_back();
  if (!ranges.empty()) ranges.back().end = std::min(ranges.back().end, size);
}

}  // namespace

struct ChatTemplate::Found {
  std::once_flag content_once, calls_once;
  ContentForm content;
  CallForm calls;
};

ChatTemplate::ChatTemplate(jinja::Template parsed, std::string source, SpecialTokens special)
    : template_(std::move(parsed)),
      source_(std::move(source)),
      special_(std::move(special)),
      found_(std::make_shared<Found>()) {}

const ContentForm& ChatTemplate::content_form() const {
  std::call_once(found_->content_once, [this] {
    found_->content = ContentForm::of([this](const Json& messages) {
      ChatInput input;
      input.messages = &messages;
      auto text = render(input);
      return text.ok() ? std::optional(std::move(text).value()) : std::nullopt;
    });
  });
  return found_->content;
}

const CallForm& ChatTemplate::call_form() const {
  std::call_once(found_->calls_once, [this] {
    const Json tools = Json::array({{{"type", "function"}, {"function", {{"name", "Rqxname7"}}}}});
    found_->calls = CallForm::of([&](const Json& messages) {
      ChatInput input;
      input.messages = &messages;
      input.tools = tool_template_ ? &tools : nullptr;
      auto text = render(input);
      return text.ok() ? std::optional(std::move(text).value()) : std::nullopt;
    });
  });
  return found_->calls;
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, SpecialTokens special, std::string_view with_tools) {
  ESP_TRY(jinja::Template parsed, jinja::Template::parse(source));
  ChatTemplate made(std::move(parsed), std::string(source), std::move(special));
  if (!with_tools.empty()) {
    ESP_TRY(made.tool_template_, jinja::Template::parse(with_tools));
    made.tool_source_ = with_tools;
  }
  return made;
}

Result<std::string> ChatTemplate::render(const ChatInput& input, const jinja::Limits& limits) const {
  ESP_TRY(RenderedChat rendered, render(input, limits, false));
  return std::move(rendered.text);
}

Result<RenderedChat> ChatTemplate::render_traced(const ChatInput& input, const jinja::Limits& limits) const {
  return render(input, limits, true);
}

Result<RenderedChat> ChatTemplate::render(const ChatInput& input, const jinja::Limits& limits, bool traced) const {
  ESP_CHECK(check_array(input.messages, "messages", true));
  ESP_CHECK(check_array(input.tools, "tools", false));
  ESP_CHECK(check_array(input.documents, "documents", false));
  ESP_CHECK(check_kwargs(input.kwargs, special_));
  if (input.continue_final_message && input.add_generation_prompt)
    return bad_request("continue_final_message and add_generation_prompt cannot both be set", "continue_final_message");
  if (input.continue_final_message && input.messages->empty())
    return bad_request("continue_final_message needs a message to continue", "messages");

  // The messages are copied only where something in them has to change.
  Json changed;
  const Json* messages = input.messages;
  std::optional<std::string> final_message;
  if (input.continue_final_message || std::any_of(messages->begin(), messages->end(), carries_reasoning)) {
    changed = *messages;
    for (Json& message : changed)
      if (carries_reasoning(message)) message = with_reasoning_names(message);
    if (input.continue_final_message) {
      ESP_TRY(final_message, mark_end(changed.back()));
    }
    messages = &changed;
  }

  const Json none(nullptr), generate(input.add_generation_prompt);
  std::vector<Json> tokens;
  tokens.reserve(special_.size());
  jinja::Template::Context context = {{"messages", messages},
                                      {"tools", input.tools ? input.tools : &none},
                                      {"documents", input.documents ? input.documents : &none},
                                      {"add_generation_prompt", &generate}};
  for (const auto& [name, text] : special_) context.emplace_back(name, &tokens.emplace_back(text));
  if (input.kwargs && input.kwargs->is_object())
    for (auto it = input.kwargs->begin(); it != input.kwargs->end(); ++it) context.emplace_back(it.key(), &it.value());

  const bool has_tools = input.tools && input.tools->is_array() && !input.tools->empty();
  const jinja::Template& chosen = has_tools && tool_template_ ? *tool_template_ : template_;
  const std::time_t now = input.now != 0 ? input.now : std::time(nullptr);
  RenderedChat out;
  if (traced) {
    std::vector<std::string_view> own;
    for (const auto& [name, text] : special_) own.push_back(name);
    ESP_TRY(jinja::Template::Traced rendered, chosen.render_traced(context, own, now, limits));
    out = {std::move(rendered.text), ranges_of(rendered.own)};
  } else {
    ESP_TRY(out.text, chosen.render(context, now, limits));
  }
  if (!final_message) return out;
  ESP_TRY(out.text, cut_at_mark(std::move(out.text), *final_message));
  cut_ranges(out.own, out.text.size());
  return out;
}

}  // namespace espalier
