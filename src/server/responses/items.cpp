#include "server/responses/items.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"
#include "net/http/http_types.h"  // printable_id
#include "server/answer/call_id.h"
#include "server/media/media_source.h"

namespace espalier::server {
namespace {

Error item_not_served(const std::string& place, std::string_view type, std::string_view what) {
  return bad_request(fmt::format("{}.type is {}, but this server reads {} only", place, in_quotes(type, 40), what),
                     place + ".type", "unsupported_parameter");
}

Result<Json> read_item_id(const Json& item, const std::string& place, std::string_view prefix) {
  ESP_TRY(const auto id, find_string(item, {"id", place}));
  if (!id || id->empty()) return Json(new_call_id(prefix));
  if (!net::printable_id(*id)) {
    return bad_request(place + ".id must be 1 to 128 printable characters without blanks", place + ".id");
  }
  return Json(*id);
}

// A picture, as it is stored: the bytes are looked at when the prompt is made.
Result<Json> read_input_image(const Json& part, std::string_view type, const std::string& place) {
  ESP_TRY(const auto medium, read_media_part(part, place));
  Json out = {{"type", "input_image"}};
  if (medium->upload.empty())
    out["image_url"] = medium->addresses.front();
  else
    out["file_id"] = medium->upload;
  ESP_TRY(const auto detail, find_string(part, {"detail", place}));
  if (type == "input_image") out["detail"] = detail.value_or("auto");
  return out;
}

Result<Json> read_text_part(const Json& part, const std::string& place, bool assistant) {
  ESP_TRY(const std::string type, get_string(part, {"type", place}));
  if (type == "refusal" && assistant) {
    ESP_TRY(const std::string text, get_string(part, {"refusal", place}));
    return Json{{"type", "refusal"}, {"refusal", text}};
  }
  if (!assistant && (type == "input_image" || type == "input_file")) return read_input_image(part, type, place);
  if (type != "input_text" && type != "output_text" && type != "text")
    return part_not_read(place, type, "input_text, input_image, input_file and output_text parts");
  ESP_TRY(const std::string text, get_string(part, {"text", place}));
  if (!assistant) return Json{{"type", "input_text"}, {"text", text}};
  return Json{{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}};
}

// A text or a list of parts, as a list.
Result<Json> read_parts(const Json& value, const std::string& place, bool assistant, const ServerOptions& options) {
  if (value.is_string()) {
    const Json part = {{"type", assistant ? "output_text" : "input_text"}, {"text", value}};
    return read_parts(Json::array({part}), place, assistant, options);
  }
  if (!value.is_array()) return bad_request(place + " must be a string or a list of parts", place);
  if (value.size() > static_cast<std::size_t>(options.max_messages)) {
    return bad_request(fmt::format("{} has {} parts, but at most {} are accepted (--max-messages)", place, value.size(),
                                   options.max_messages),
                       place);
  }
  Json parts = Json::array();
  for (std::size_t i = 0; i < value.size(); ++i) {
    ESP_TRY(Json part, read_text_part(value[i], fmt::format("{}[{}]", place, i), assistant));
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<Json> read_message_item(const Json& item, const std::string& place, const ServerOptions& options) {
  ESP_TRY(const std::string role, get_string(item, {"role", place}));
  constexpr std::string_view known[] = {"user", "assistant", "system", "developer"};
  if (std::ranges::find(known, role) == std::end(known)) {
    return bad_request(
        fmt::format("{}.role is {}; it may be user, assistant, system or developer", place, in_quotes(role, 40)),
        place + ".role");
  }
  const Json* content = find_field(item, "content");
  if (content == nullptr) return bad_request(place + ".content is missing", place + ".content");
  Json out = Json::object();
  ESP_TRY(out["id"], read_item_id(item, place, "msg_"));
  out["type"] = "message";
  out["status"] = "completed";
  out["role"] = role;
  ESP_TRY(out["content"], read_parts(*content, place + ".content", role == "assistant", options));
  return out;
}

Result<Json> read_call_item(const Json& item, const std::string& place) {
  Json out = Json::object();
  ESP_TRY(out["id"], read_item_id(item, place, "fc_"));
  out["type"] = "function_call";
  out["status"] = "completed";
  ESP_TRY(out["call_id"], get_string(item, {"call_id", place}));
  ESP_TRY(out["name"], get_string(item, {"name", place}));
  ESP_TRY(out["arguments"], get_string(item, {"arguments", place}));
  return out;
}

Result<Json> read_output_item(const Json& item, const std::string& place, const ServerOptions& options) {
  Json out = Json::object();
  ESP_TRY(out["id"], read_item_id(item, place, "fco_"));
  out["type"] = "function_call_output";
  out["status"] = "completed";
  ESP_TRY(out["call_id"], get_string(item, {"call_id", place}));
  const Json* output = find_field(item, "output");
  if (output == nullptr) return bad_request(place + ".output is missing", place + ".output");
  if (output->is_string()) {
    out["output"] = *output;
  } else {
    ESP_TRY(out["output"], read_parts(*output, place + ".output", false, options));
  }
  return out;
}

// Thoughts: the text in `content` if there is any, else the summary stands for it.
Result<Json> read_reasoning_item(const Json& item, const std::string& place) {
  Json out = Json::object();
  ESP_TRY(out["id"], read_item_id(item, place, "rs_"));
  out["type"] = "reasoning";
  for (const char* name : {"summary", "content"}) {
    Json parts = Json::array();
    ESP_TRY(const Json* given, find_array(item, {name, place}));
    for (std::size_t i = 0; given != nullptr && i < given->size(); ++i) {
      const std::string here = fmt::format("{}.{}[{}]", place, name, i);
      ESP_TRY(const std::string type, get_string((*given)[i], {"type", here}));
      if (type != "summary_text" && type != "reasoning_text")
        return item_not_served(here, type, "summary_text and reasoning_text");
      ESP_TRY(const std::string text, get_string((*given)[i], {"text", here}));
      parts.push_back({{"type", type}, {"text", text}});
    }
    out[name] = std::move(parts);
  }
  return out;
}

Result<Json> read_item(const Json& item, const std::string& place, const ServerOptions& options) {
  if (!item.is_object()) return bad_request(place + " must be an object with a type", place);
  ESP_TRY(const auto given, find_string(item, {"type", place}));
  const std::string type = given.value_or(find_field(item, "role") != nullptr ? "message" : "");
  if (type == "message") return read_message_item(item, place, options);
  if (type == "function_call") return read_call_item(item, place);
  if (type == "function_call_output") return read_output_item(item, place, options);
  if (type == "reasoning") return read_reasoning_item(item, place);
  if (type == "item_reference" || (type.empty() && find_field(item, "id") != nullptr)) {
    ESP_TRY(const std::string id, get_string(item, {"id", place}));
    return Json{{"type", "item_reference"}, {"id", id}};
  }
  return item_not_served(place, type, "message, function_call, function_call_output, reasoning and item_reference");
}

}  // namespace

Result<Json> read_items(const Json& value, std::string_view place, const ServerOptions& options) {
  const std::string here(place);
  if (value.is_string()) {
    const Json message = {{"role", "user"}, {"content", value}};
    return read_items(Json::array({message}), place, options);
  }
  if (!value.is_array()) return bad_request(here + " must be a string or a list of items", here);
  if (value.size() > static_cast<std::size_t>(options.max_messages)) {
    return bad_request(fmt::format("{} has {} entries, but at most {} are accepted (--max-messages)", place,
                                   value.size(), options.max_messages),
                       here);
  }
  Json items = Json::array();
  for (std::size_t i = 0; i < value.size(); ++i) {
    ESP_TRY(Json item, read_item(value[i], fmt::format("{}[{}]", place, i), options));
    items.push_back(std::move(item));
  }
  return items;
}

namespace {

// Of what was kept: the bytes where there are any.
Json chat_picture(const Json& part, const std::string& place) {
  const Json* url = find_field(part, "image_url");
  return url != nullptr ? picture_part(url->get<std::string>(), place) : upload_part(part.value("file_id", ""), place);
}

// What errors call an item: it, or, of one that was said before, what brought it here.
struct ItemPlace {
  std::string name;
  bool former = false;
  std::string part(std::string_view list, std::size_t i) const {
    return former ? name : fmt::format("{}.{}[{}]", name, list, i);
  }
};

// One text where there is one part, as chat completions' bodies have it. `list`: what the parts are called in the item.
Json chat_content(const Json& parts, const ItemPlace& place, std::string_view list) {
  if (parts.is_string()) return parts;
  Json content = Json::array();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    if (part.value("type", "") == "input_image") {
      content.push_back(chat_picture(part, place.part(list, i)));
      continue;
    }
    const Json* text = find_field(part, "text");
    content.push_back({{"type", "text"}, {"text", text != nullptr ? *text : part.value("refusal", Json(""))}});
  }
  if (content.empty()) return "";
  return content.size() == 1 && content[0]["type"] == "text" ? content[0]["text"] : content;
}

std::string joined_texts(const Json& parts) {
  std::string all;
  for (const Json& part : parts) {
    if (!all.empty()) all += '\n';
    all += part.value("text", "");
  }
  return all;
}

// Puts turns together.
class TurnBuilder {
 public:
  void add(const Json& item, const ItemPlace& place) {
    const std::string type = item.value("type", "");
    if (type == "message") return message(item, place);
    if (type == "reasoning") return reasoning(item);
    if (type == "function_call") return call(item);
    if (type == "function_call_output") return output(item, place);
  }
  Json finish() {
    flush();
    return std::move(messages_);
  }

 private:
  void message(const Json& item, const ItemPlace& place) {
    const std::string role = item.value("role", "");
    if (role != "assistant") {
      flush();
      messages_.push_back({{"role", role}, {"content", chat_content(item["content"], place, "content")}});
      return;
    }
    if (!content_.is_null() || !calls_.empty()) flush();
    content_ = chat_content(item["content"], place, "content");
  }
  void reasoning(const Json& item) {
    if (!content_.is_null() || !calls_.empty()) flush();
    const std::string text = joined_texts(item["content"]);
    reasoning_ += text.empty() ? joined_texts(item["summary"]) : text;
  }
  void call(const Json& item) {
    const Json function = {{"name", item["name"]}, {"arguments", item["arguments"]}};
    names_[item.value("call_id", "")] = item["name"];
    calls_.push_back({{"id", item["call_id"]}, {"type", "function"}, {"function", function}});
  }
  void output(const Json& item, const ItemPlace& place) {
    flush();
    const std::string id = item.value("call_id", "");
    Json message = {{"role", "tool"}, {"tool_call_id", id}, {"content", chat_content(item["output"], place, "output")}};
    if (names_.contains(id)) message["name"] = names_[id];
    messages_.push_back(std::move(message));
  }
  void flush() {
    if (content_.is_null() && calls_.empty() && reasoning_.empty()) return;
    Json message = {{"role", "assistant"}, {"content", nullptr}};
    if (!content_.is_null() || calls_.empty()) message["content"] = content_.is_null() ? Json("") : std::move(content_);
    if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
    if (!reasoning_.empty()) message["reasoning_content"] = std::move(reasoning_);
    content_ = nullptr;
    calls_ = Json::array();
    reasoning_.clear();
    messages_.push_back(std::move(message));
  }

  Json messages_ = Json::array(), content_ = nullptr, calls_ = Json::array();
  Json names_ = Json::object();  // of functions, by the ids of their calls
  std::string reasoning_;
};

}  // namespace

Json messages_of(const Json& items, std::size_t former, std::string_view former_place) {
  TurnBuilder turns;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ItemPlace place = i < former ? ItemPlace{std::string(former_place), true}
                                       : ItemPlace{fmt::format("input[{}]", i - former), false};
    turns.add(items[i], place);
  }
  return turns.finish();
}

}  // namespace espalier::server
