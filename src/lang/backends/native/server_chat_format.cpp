#include "lang/backends/native/server_chat_format.h"

#include "base/json/json_fields.h"
#include "lang/backends/remote/calls/reply_reader.h"
#include "lang/backends/remote/wire/wire_text.h"
#include "lang/chat/chat_format_of.h"

namespace espalier::lang::native {
namespace {

Result<Json> asked(RequestQueue& queue, std::string_view path, const Json& body, const char* wanted) {
  ESP_TRY(const std::string answer, queue.ask(queue.request(path, wire_text(body))));
  ESP_TRY(const Json reply, read_reply_json("native", answer));
  const Json* value = find_field(reply, wanted);
  if (!value) return bad_reply("native", std::string(path) + " told no " + wanted);
  return *value;
}

// The text of the begin token, where the server puts it before every text.
Result<std::string> begin_text(RequestQueue& queue, std::int64_t bos) {
  if (bos < 0) return std::string();
  ESP_TRY(const Json ids, asked(queue, "/tokenize", {{"prompt", "a"}}, "tokens"));
  if (!ids.is_array() || ids.empty() || ids.front() != bos) return std::string();
  Json body = Json::object();
  body["tokens"] = Json::array({bos});
  body["skip_special_tokens"] = false;
  ESP_TRY(const Json text, asked(queue, "/detokenize", body, "text"));
  return text.is_string() ? text.get<std::string>() : std::string();
}

}  // namespace

Result<ChatFormat> server_chat_format(RequestQueue& queue, std::int64_t bos) {
  ESP_TRY(std::string begin, begin_text(queue, bos));
  const auto render = [&queue](const Json& messages, bool add_generation_prompt) -> Result<std::string> {
    Json body = Json::object();
    body["messages"] = messages;
    body["add_generation_prompt"] = add_generation_prompt;
    ESP_TRY(const Json prompt, asked(queue, "/apply-template", body, "prompt"));
    if (!prompt.is_string()) return bad_reply("native", "/apply-template told no text");
    return prompt.get<std::string>();
  };
  return chat_format_of(render, std::move(begin));
}

}  // namespace espalier::lang::native
