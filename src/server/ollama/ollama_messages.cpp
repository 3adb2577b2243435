#include "server/ollama/ollama_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json/json_fields.h"
#include "server/media/media_source.h"

namespace espalier::server {
namespace {

// A call of the last turn that has no result yet.
struct OpenCall {
  std::string id, name;
};

// Reads messages one after the other; results of tools go to the calls before them.
class MessageReader {
 public:
  Result<Json> read(const Json& message, const std::string& place) {
    ESP_TRY(const std::string role, get_string(message, {"role", place}));
    ESP_TRY(const auto content, find_string(message, {"content", place}));
    ESP_TRY(const auto thinking, find_string(message, {"thinking", place}));
    Json out = {{"role", role}, {"content", content.value_or("")}};
    ESP_CHECK(add_pictures(message, place, out["content"]));
    if (thinking && !thinking->empty()) out["reasoning_content"] = *thinking;
    ESP_TRY(const Json* calls, find_array(message, {"tool_calls", place}));
    if (calls != nullptr && !calls->empty()) {
      if (content.value_or("").empty()) out["content"] = nullptr;
      ESP_TRY(out["tool_calls"], read_calls(*calls, place + ".tool_calls"));
    }
    if (role == "tool") ESP_CHECK(answer_call(message, place, out));
    return out;
  }

 private:
  Result<Json> read_calls(const Json& calls, const std::string& place) {
    Json out = Json::array();
    open_.clear();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::string here = fmt::format("{}[{}]", place, i);
      ESP_TRY(const Json* function, get_object(calls[i], {"function", here}));
      ESP_TRY(const std::string name, get_string(*function, {"name", here + ".function"}));
      ESP_TRY(const auto id, find_string(calls[i], {"id", here}));
      // Nine letters and digits: some templates want no others.
      open_.push_back({id && !id->empty() ? *id : fmt::format("call{:05}", made_++), name});
      const Json* arguments = find_field(*function, "arguments");
      out.push_back({{"id", open_.back().id},
                     {"type", "function"},
                     {"function", {{"name", name}, {"arguments", arguments ? *arguments : Json::object()}}}});
    }
    return out;
  }

  // Of the call that is named, else of the first that has no result.
  Result<> answer_call(const Json& message, const std::string& place, Json& out) {
    ESP_TRY(const auto id, find_string(message, {"tool_call_id", place}));
    ESP_TRY(const auto tool, find_string(message, {"tool_name", place}));
    ESP_TRY(const auto name, find_string(message, {"name", place}));
    const std::string called = tool ? *tool : name.value_or("");
    auto call =
        std::ranges::find_if(open_, [&](const OpenCall& each) { return id ? each.id == *id : each.name == called; });
    if (call == open_.end() && !id && called.empty()) call = open_.begin();
    if (id) out["tool_call_id"] = *id;
    if (!called.empty()) out["name"] = called;
    if (call == open_.end()) return success();
    out["tool_call_id"] = call->id;
    out["name"] = call->name;
    open_.erase(call);
    return success();
  }

  std::vector<OpenCall> open_;
  int made_ = 0;
};

}  // namespace

Result<> add_pictures(const Json& object, std::string_view place, Json& content) {
  ESP_TRY(const Json* images, find_array(object, {"images", place}));
  if (images == nullptr || images->empty()) return success();
  const std::string path = JsonField("images", place).path();
  Json parts = Json::array();
  for (std::size_t i = 0; i < images->size(); ++i) {
    const std::string here = fmt::format("{}[{}]", path, i);
    ESP_TRY(std::string picture, as_string((*images)[i], here));
    parts.push_back(picture_part(std::move(picture), here));
  }
  if (const auto* text = content.get_ptr<const std::string*>(); text == nullptr || !text->empty())
    parts.push_back({{"type", "text"}, {"text", std::move(content)}});
  content = std::move(parts);
  return success();
}

Result<Json> read_ollama_messages(const Json& messages) {
  if (!messages.is_array()) return bad_request("messages must be a list of messages", "messages");
  Json out = Json::array();
  MessageReader reader;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ESP_TRY(Json message, reader.read(messages[i], fmt::format("messages[{}]", i)));
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace espalier::server
