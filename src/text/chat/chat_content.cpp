#include "text/chat/chat_content.h"

#include <algorithm>

namespace espalier {
namespace {

constexpr std::string_view kFirst = "Rqxfirst7", kSecond = "Rqxsecond7";

Json part(std::string_view text) {
  return {{"type", "text"}, {"text", text}};
}

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

// Both texts come out, in their order, and nothing of the list is written beside what a text alone brings.
bool shows_parts(std::string_view shown, std::string_view of_text) {
  const std::size_t first = shown.find(kFirst), second = shown.find(kSecond);
  if (first == shown.npos || second == shown.npos || second < first) return false;
  for (const std::string_view of_list : {"'type'", "\"type\"", "'text'", "\"text\""})
    if (count(shown, of_list) > count(of_text, of_list)) return false;
  return true;
}

std::string joined(const Json& parts) {
  std::string text;
  bool first = true;
  for (const Json& one : parts) {
    if (!std::exchange(first, false)) text += ' ';
    if (one.is_object() && one.contains("text") && one["text"].is_string())
      text += one["text"].get_ref<const std::string&>();
  }
  return text;
}

}  // namespace

std::size_t content_role(std::string_view role) {
  if (role == "developer") role = "system";
  if (role == "function") role = "tool";
  return static_cast<std::size_t>(std::find(kContentRoles.begin(), kContentRoles.end(), role) - kContentRoles.begin());
}

Json conversation_about(std::string_view role, Json content) {
  const Json asked = {{"role", "user"}, {"content", "Rqxasked7"}};
  Json message = {{"role", role}, {"content", std::move(content)}};
  if (role == "system") return {message, asked};
  if (role == "user") return Json::array({message});
  if (role == "assistant") return {asked, message, asked};
  const Json call = {
      {"id", "callabc12"}, {"type", "function"}, {"function", {{"name", "Rqxname7"}, {"arguments", Json::object()}}}};
  message["tool_call_id"] = "callabc12";
  message["name"] = "Rqxname7";
  return {asked, {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}}, message};
}

ContentForm ContentForm::of(const Render& render) {
  ContentForm made;
  for (std::size_t i = 0; i < kContentRoles.size(); ++i) {
    const auto text = render(conversation_about(kContentRoles[i], std::string(kFirst)));
    const bool takes_text = text && text->find(kFirst) != text->npos;
    const auto parts = render(conversation_about(kContentRoles[i], Json::array({part(kFirst), part(kSecond)})));
    const bool takes_parts = parts && shows_parts(*parts, text.value_or(""));
    made.forms_[i] = !takes_parts ? Form::text : takes_text ? Form::either : Form::parts;
  }
  return made;
}

ContentForm ContentForm::always_text() {
  return {};
}

ContentForm ContentForm::always_parts() {
  ContentForm made;
  made.forms_.fill(Form::parts);
  return made;
}

ContentForm::Form ContentForm::form(std::string_view role) const {
  const std::size_t place = content_role(role);
  return place == forms_.size() ? Form::text : forms_[place];
}

Json ContentForm::adapt(const Json& messages) const {
  Json adapted = messages;
  for (Json& message : adapted) {
    if (!message.is_object() || !message.contains("content") || !message.contains("role")) continue;
    Json& content = message["content"];
    const Form takes = form(message["role"].is_string() ? message["role"].get_ref<const std::string&>() : "");
    if (content.is_array() && takes == Form::text)
      content = joined(content);
    else if (content.is_string() && takes == Form::parts)
      content = Json::array({part(content.get_ref<const std::string&>())});
  }
  return adapted;
}

}  // namespace espalier
