#include "text/chat/chat_calls.h"

#include <string_view>

namespace espalier {
namespace {

constexpr std::string_view kName = "Rqxname7", kKey = "Rqxkey7", kArguments = R"({"Rqxkey7": "Rqxvalue7"})";

Json called(Json content, Json arguments) {
  const Json call = {
      {"id", "callabc12"}, {"type", "function"}, {"function", {{"name", kName}, {"arguments", std::move(arguments)}}}};
  return {{{"role", "user"}, {"content", "Rqxasked7"}},
          {{"role", "assistant"}, {"content", std::move(content)}, {"tool_calls", Json::array({call})}},
          {{"role", "tool"}, {"content", "Rqxresult7"}, {"tool_call_id", "callabc12"}, {"name", kName}}};
}

bool shows(const std::optional<std::string>& text, std::string_view what) {
  return text && text->find(what) != text->npos;
}

std::size_t occurrences(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

// Whether null was written out as a word.
bool says_null(std::string_view with_null, std::string_view with_empty) {
  for (const std::string_view word : {"None", "null"})
    if (occurrences(with_null, word) > occurrences(with_empty, word)) return true;
  return false;
}

// As Python's json.dumps writes it, which is what models were trained on.
std::string written(const Json& object) {
  std::string text;
  bool inside = false;
  const std::string dense = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t i = 0; i < dense.size(); ++i) {
    text += dense[i];
    if (inside && dense[i] == '\\')
      text += dense[++i];
    else if (dense[i] == '"')
      inside = !inside;
    else if (!inside && (dense[i] == ',' || dense[i] == ':'))
      text += ' ';
  }
  return text;
}

bool is_empty(const Json& content) {
  return content.is_null() || (content.is_string() && content.get_ref<const std::string&>().empty());
}

}  // namespace

CallForm CallForm::of(const Render& render) {
  CallForm made;
  const Json object = {{kKey, "Rqxvalue7"}};
  const auto of_text = render(called("", std::string(kArguments)));
  const auto of_text_null = render(called(nullptr, std::string(kArguments)));
  made.arguments_as_text_ = shows(of_text, kArguments) || shows(of_text_null, kArguments);
  const Json arguments = made.arguments_as_text_ ? Json(std::string(kArguments)) : object;
  const auto empty = made.arguments_as_text_ ? of_text : render(called("", arguments));
  const auto null = made.arguments_as_text_ ? of_text_null : render(called(nullptr, arguments));
  made.null_works_ = null && !says_null(*null, empty.value_or(""));
  made.null_shows_ = shows(null, kName);
  made.empty_shows_ = shows(empty, kName);
  // A template that renders neither form shows its own error whichever it gets.
  if (!empty && !null && of_text) made.arguments_as_text_ = true;
  return made;
}

bool CallForm::wants_null(const Json& content) const {
  if (content.is_null()) return null_works_ && (null_shows_ || !empty_shows_);
  return null_works_ && null_shows_ && !empty_shows_;
}

void CallForm::adapt_arguments(Json& function) const {
  Json arguments = function.contains("arguments") ? function["arguments"] : Json();
  if (arguments.is_null() || is_empty(arguments)) arguments = Json::object();
  if (arguments_as_text_) {
    if (!arguments.is_string()) arguments = written(arguments);
  } else if (arguments.is_string()) {
    auto parsed = parse_json(arguments.get_ref<const std::string&>());
    if (parsed.ok() && parsed->is_object()) arguments = std::move(*parsed);
  }
  function["arguments"] = std::move(arguments);
}

void CallForm::adapt(Json& messages) const {
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("tool_calls") || !message["tool_calls"].is_array()) continue;
    for (Json& call : message["tool_calls"])
      if (call.is_object() && call.contains("function") && call["function"].is_object())
        adapt_arguments(call["function"]);
    if (message["tool_calls"].empty()) continue;
    const Json content = message.contains("content") ? message["content"] : Json();
    if (is_empty(content)) message["content"] = wants_null(content) ? Json() : Json("");
  }
}

}  // namespace espalier
