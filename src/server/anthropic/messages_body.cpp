#include "server/anthropic/messages_body.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"
#include "server/fields/unknown_fields.h"
#include "server/media/media_source.h"

namespace espalier::server {
namespace {

constexpr std::string_view kNames[] = {"model",          "max_tokens",   "messages",      "system",
                                       "stop_sequences", "stream",       "temperature",   "top_p",
                                       "top_k",          "tools",        "tool_choice",   "thinking",
                                       "metadata",       "service_tier", "container",     "context_management",
                                       "output_config",  "mcp_servers",  "cache_control", "lora_path"};

Error not_served(const std::string& place, std::string_view type) {
  return bad_request(
      fmt::format("{}.type is {}, but this server reads text, image, tool_use, tool_result and thinking only", place,
                  in_quotes(type, 40)),
      place + ".type", "unsupported_parameter");
}

Json text_part(std::string text) {
  return {{"type", "text"}, {"text", std::move(text)}};
}

// A text, or blocks of text, as parts of a chat message; in results of tools also pictures.
Result<Json> read_texts(const Json& value, const std::string& place, bool pictures = false) {
  if (value.is_string()) return value;
  if (!value.is_array()) return bad_request(place + " must be a string or a list of blocks", place);
  Json parts = Json::array();
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", place, i);
    ESP_TRY(const std::string type, get_string(value[i], {"type", here}));
    if (type == "image" && pictures) {
      ESP_TRY(Json part, read_source_part(value[i], here));
      parts.push_back(std::move(part));
      continue;
    }
    if (type != "text") return not_served(here, type);
    ESP_TRY(std::string text, get_string(value[i], {"text", here}));
    parts.push_back(text_part(std::move(text)));
  }
  return parts;
}

using CallNames = std::vector<std::pair<std::string, std::string>>;

// One turn of the body: several messages where results of tools stand beside a user's words.
class TurnReader {
 public:
  // `names`: of the calls of the turn before, by their ids.
  TurnReader(std::string role, const CallNames& names, Json& messages)
      : role_(std::move(role)), names_(names), messages_(messages) {}

  Result<> read(const Json& content, const std::string& place) {
    if (content.is_string()) {
      messages_.push_back({{"role", role_}, {"content", content}});
      return success();
    }
    if (!content.is_array()) return bad_request(place + " must be a string or a list of blocks", place);
    for (std::size_t i = 0; i < content.size(); ++i) ESP_CHECK(block(content[i], fmt::format("{}[{}]", place, i)));
    finish();
    return success();
  }

 private:
  Result<> block(const Json& block, const std::string& place) {
    ESP_TRY(const std::string type, get_string(block, {"type", place}));
    if (type == "text") {
      ESP_TRY(std::string text, get_string(block, {"text", place}));
      parts_.push_back(text_part(std::move(text)));
      return success();
    }
    if (type == "image" && role_ == "user") {
      ESP_TRY(Json part, read_source_part(block, place));
      parts_.push_back(std::move(part));
      return success();
    }
    if (type == "tool_result" && role_ == "user") return result(block, place);
    if (type == "tool_use" && role_ == "assistant") return use(block, place);
    if (type == "thinking") {
      ESP_TRY(const std::string text, get_string(block, {"thinking", place}));
      thinking_ += text;
      return success();
    }
    if (type == "redacted_thinking") return success();
    return not_served(place, type);
  }

  Result<> result(const Json& block, const std::string& place) {
    ESP_TRY(const std::string id, get_string(block, {"tool_use_id", place}));
    Json content = "";
    if (const Json* given = find_field(block, "content")) {
      ESP_TRY(content, read_texts(*given, place + ".content", true));
    }
    finish();  // what the user said before it
    Json message = {{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(content)}};
    for (const auto& [known, name] : names_)
      if (known == id) message["name"] = name;
    messages_.push_back(std::move(message));
    return success();
  }

  Result<> use(const Json& block, const std::string& place) {
    ESP_TRY(const std::string id, get_string(block, {"id", place}));
    ESP_TRY(const std::string name, get_string(block, {"name", place}));
    ESP_TRY(const Json* input, get_object(block, {"input", place}));
    calls_.push_back({{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", *input}}}});
    return success();
  }

  void finish() {
    if (parts_.empty() && calls_.empty() && thinking_.empty()) return;
    Json message = {{"role", role_}};
    if (parts_.empty() && !calls_.empty())
      message["content"] = nullptr;
    else
      message["content"] = parts_.empty() ? Json("") : std::exchange(parts_, Json::array());
    if (!calls_.empty()) message["tool_calls"] = std::exchange(calls_, Json::array());
    if (!thinking_.empty()) message["reasoning_content"] = std::exchange(thinking_, {});
    messages_.push_back(std::move(message));
  }

  std::string role_;
  const CallNames& names_;
  Json& messages_;
  Json parts_ = Json::array(), calls_ = Json::array();
  std::string thinking_;
};

void note_names(const Json& messages, CallNames& names) {
  if (messages.empty() || !messages.back().contains("tool_calls")) return;
  names.clear();
  for (const Json& call : messages.back()["tool_calls"])
    names.emplace_back(call["id"].get<std::string>(), call["function"]["name"].get<std::string>());
}

Result<Json> read_conversation(const Json& body) {
  Json messages = Json::array();
  if (const Json* system = find_field(body, "system")) {
    ESP_TRY(Json content, read_texts(*system, "system"));
    if (!content.empty()) messages.push_back({{"role", "system"}, {"content", std::move(content)}});
  }
  ESP_TRY(const Json* turns, get_array(body, "messages"));
  CallNames names;
  for (std::size_t i = 0; i < turns->size(); ++i) {
    const std::string place = fmt::format("messages[{}]", i);
    const Json& turn = (*turns)[i];
    ESP_TRY(const std::string role, get_string(turn, {"role", place}));
    if (role != "user" && role != "assistant" && role != "system") {
      return bad_request(fmt::format("{}.role is {}; it may be user or assistant", place, in_quotes(role, 40)),
                         place + ".role");
    }
    const Json* content = find_field(turn, "content");
    if (content == nullptr) return bad_request(place + ".content is missing", place + ".content");
    ESP_CHECK(TurnReader(role, names, messages).read(*content, place + ".content"));
    note_names(messages, names);
  }
  return messages;
}

// Tools and tool_choice as chat completions have them.
Result<> read_tools(const Json& body, Json& out) {
  const Json* tools = find_field(body, "tools");
  if (tools == nullptr) return success();
  if (!tools->is_array()) return bad_request("tools must be a list", "tools");
  Json list = Json::array();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const std::string place = fmt::format("tools[{}]", i);
    const Json& tool = (*tools)[i];
    ESP_TRY(const auto type, find_string(tool, {"type", place}));
    if (type.value_or("custom") != "custom") {
      return bad_request(fmt::format("{}.type is {}, but only custom tools are supported: this server runs none itself",
                                     place, in_quotes(*type, 40)),
                         place + ".type", "unsupported_parameter");
    }
    ESP_TRY(const std::string name, get_string(tool, {"name", place}));
    ESP_TRY(const Json* schema, get_object(tool, {"input_schema", place}));
    Json function = {{"name", name}};
    if (const Json* text = find_field(tool, "description"); text != nullptr) function["description"] = *text;
    function["parameters"] = *schema;
    if (const Json* strict = find_field(tool, "strict"); strict != nullptr) function["strict"] = *strict;
    list.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  out["tools"] = std::move(list);
  return success();
}

Result<> read_tool_choice(const Json& body, Json& out) {
  const Json* choice = find_field(body, "tool_choice");
  if (choice == nullptr) return success();
  ESP_TRY(const std::string type, get_string(*choice, {"type", "tool_choice"}));
  ESP_TRY(const auto single, find_boolean(*choice, {"disable_parallel_tool_use", "tool_choice"}));
  if (single.value_or(false)) out["parallel_tool_calls"] = false;
  if (type == "tool") {
    ESP_TRY(const std::string name, get_string(*choice, {"name", "tool_choice"}));
    out["tool_choice"] = {{"type", "function"}, {"function", {{"name", name}}}};
  } else if (type == "auto" || type == "none") {
    out["tool_choice"] = type;
  } else if (type == "any") {
    out["tool_choice"] = "required";
  } else {
    return bad_request("tool_choice.type must be auto, any, tool or none", "tool_choice.type");
  }
  return success();
}

Result<> read_thinking(const Json& body, Json& out) {
  if (const Json* thinking = find_field(body, "thinking")) out["thinking"] = *thinking;
  const Json* config = find_field(body, "output_config");
  if (config == nullptr) return success();
  ESP_TRY(const auto effort, find_string(*config, {"effort", "output_config"}));
  if (effort) out["reasoning_effort"] = *effort;
  return success();
}

Result<std::optional<double>> find_number(const Json& body, const char* name, double most) {
  const Json* value = find_field(body, name);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number() || value->get<double>() < 0 || value->get<double>() > most)
    return bad_request(fmt::format("{} must be a number from 0 to {}", name, most), name);
  return std::optional(value->get<double>());
}

Result<> read_sampling(const Json& body, SamplingParams& out, bool counts) {
  ESP_TRY(const auto temperature, find_number(body, "temperature", 2));
  ESP_TRY(const auto top_p, find_number(body, "top_p", 1));
  ESP_TRY(const auto top_k, find_number(body, "top_k", 1e9));
  ESP_TRY(const auto most, find_number(body, "max_tokens", 1e9));
  if (temperature) out.temperature = *temperature;
  if (top_p) out.top_p = *top_p;
  if (top_k) out.top_k = *top_k == 0 ? -1 : static_cast<int>(*top_k);
  if (!most && !counts) return bad_request("max_tokens is missing", "max_tokens");
  if (most && (*most < 1 || *most != static_cast<int>(*most)))
    return bad_request("max_tokens must be a whole number of at least 1", "max_tokens");
  if (most) out.max_new_tokens = static_cast<int>(*most);
  if (const Json* stops = find_field(body, "stop_sequences")) {
    ESP_TRY(out.stop, as_strings(*stops, "stop_sequences"));
  }
  return success();
}

}  // namespace

std::span<const std::string_view> messages_field_names() {
  return kNames;
}

std::vector<std::string> unknown_messages_fields(const Json& body) {
  std::vector<std::string> unknown;
  if (!body.is_object()) return unknown;
  for (const auto& [name, value] : body.get_ref<const Json::object_t&>())
    if (std::ranges::find(kNames, name) == std::end(kNames)) unknown.push_back(name);
  return unknown;
}

Result<ChatPrompt> messages_prompt(const Json& body, const ServerOptions& options) {
  Json chat = Json::object();
  ESP_TRY(chat["messages"], read_conversation(body));
  ESP_CHECK(read_tools(body, chat));
  ESP_CHECK(read_tool_choice(body, chat));
  ESP_CHECK(read_thinking(body, chat));
  go_on_with_last_turn(chat);
  return parse_chat_prompt(chat, options);
}

Result<MessagesBody> parse_messages(const Json& body, const ServerOptions& options, const SamplingParams& defaults,
                                    bool counts) {
  MessagesBody out;
  out.sampling = defaults;
  ESP_CHECK(read_sampling(body, out.sampling, counts));
  ESP_TRY(const auto model, find_string(body, "model"));
  ESP_TRY(const auto stream, find_boolean(body, "stream"));
  out.model = model.value_or("");
  out.stream = stream.value_or(false);
  if (const Json* metadata = find_field(body, "metadata"); metadata != nullptr && metadata->is_object()) {
    ESP_TRY(const auto user, find_string(*metadata, {"user_id", "metadata"}));
    out.user = user.value_or("").substr(0, 256);
  }
  ESP_TRY(out.turn.prompt, messages_prompt(body, options));
  return out;
}

}  // namespace espalier::server
