#include "server/prompt/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"

namespace espalier::server {
namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Result<std::string> read_role(const Json& message, const std::string& place) {
  ESP_TRY(std::string role, get_string(message, {"role", place}));
  role = lower(std::move(role));
  if (std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles)) return role;
  return bad_request(fmt::format("{}.role is {}; it may be system, developer, user, assistant, tool or function", place,
                                 in_quotes(role, 40)),
                     place + ".role");
}

Result<std::string> read_text(const Json& part, const std::string& place) {
  if (part.is_string()) return part.get<std::string>();
  ESP_TRY(const std::string type, get_string(part, {"type", place}));
  if (type == "text" || type == "input_text" || type == "output_text") return get_string(part, {"text", place});
  if (type == "refusal") return get_string(part, {"refusal", place});
  if (type == "thinking") return std::string();
  return part_not_read(place, type, "parts of text, pictures and films");
}

Result<Json> read_part(const Json& part, const std::string& place, std::vector<MediaSource>& media) {
  ESP_TRY(auto medium, read_media_part(part, place));
  if (!medium) {
    ESP_TRY(std::string text, read_text(part, place));
    return Json{{"type", "text"}, {"text", std::move(text)}};
  }
  media.push_back(*std::move(medium));
  return Json{{"type", media.back().kind == MediaSource::Kind::film ? "video" : "image"}};
}

// A text, or parts: the template takes them in its own form (text/chat/chat_content.h, text/chat/chat_media.h).
Result<Json> read_content(const Json& message, const std::string& place, const ServerOptions& options,
                          std::vector<MediaSource>& media) {
  const Json* content = find_field(message, "content");
  if (content == nullptr) return Json("");
  if (content->is_string()) return *content;
  if (!content->is_array()) {
    return bad_request(fmt::format("{}.content must be a string or a list of parts", place), place + ".content");
  }
  if (content->size() > static_cast<std::size_t>(options.max_messages)) {
    return bad_request(fmt::format("{}.content has {} parts, but at most {} are accepted", place, content->size(),
                                   options.max_messages),
                       place + ".content");
  }
  Json parts = Json::array();
  for (std::size_t i = 0; i < content->size(); ++i) {
    ESP_TRY(Json part, read_part((*content)[i], fmt::format("{}.content[{}]", place, i), media));
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<Json> read_tool_calls(const Json& calls, const std::string& place) {
  if (!calls.is_array()) return bad_request(place + " must be a list", place);
  Json out = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", place, i);
    ESP_TRY(const Json* function, get_object(calls[i], {"function", here}));
    ESP_CHECK(get_string(*function, {"name", here + ".function"}));
    const Json* arguments = find_field(*function, "arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      return bad_request(here + ".function.arguments must be a string, an object or null",
                         here + ".function.arguments");
    }
    out.push_back(calls[i]);
  }
  return out;
}

Result<Json> read_message(const Json& message, const std::string& place, const ServerOptions& options,
                          std::vector<MediaSource>& media) {
  if (!message.is_object()) return bad_request(place + " must be an object with role and content", place);
  ESP_TRY(std::string role, read_role(message, place));
  ESP_TRY(Json content, read_content(message, place, options, media));
  const Json* calls = find_field(message, "tool_calls");
  const bool has_calls = calls != nullptr && !calls->empty();
  if (find_field(message, "content") == nullptr && role != "assistant") {
    return bad_request(place + ".content is missing", place + ".content");
  }
  Json out = Json::object();
  out["role"] = std::move(role);
  out["content"] = std::move(content);
  if (has_calls) {
    if (find_field(message, "content") == nullptr)
      out["content"] = nullptr;  // the template decides (text/chat/chat_calls.h)
    ESP_TRY(out["tool_calls"], read_tool_calls(*calls, place + ".tool_calls"));
  }
  for (const char* name : {"name", "tool_call_id", "reasoning_content", "reasoning"}) {
    ESP_TRY(auto text, find_string(message, {name, place}));
    if (text) out[name] = std::move(*text);
  }
  return out;
}

}  // namespace

Result<Json> read_messages(const Json& value, const ServerOptions& options, std::vector<MediaSource>& media) {
  if (!value.is_array()) return bad_request("messages must be a list of messages", "messages");
  if (value.empty()) return bad_request("messages is empty; it needs at least one message", "messages");
  if (value.size() > static_cast<std::size_t>(options.max_messages)) {
    return bad_request(fmt::format("messages has {} entries, but at most {} are accepted (--max-messages)",
                                   value.size(), options.max_messages),
                       "messages");
  }
  Json out = Json::array();
  for (std::size_t i = 0; i < value.size(); ++i) {
    ESP_TRY(Json message, read_message(value[i], fmt::format("messages[{}]", i), options, media));
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace espalier::server
