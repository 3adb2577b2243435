#include "lang/backends/anthropic/anthropic_wire.h"

#include <fmt/format.h>

#include "base/base64.h"
#include "base/json/json.h"
#include "lang/backends/remote/wire/content_parts.h"
#include "lang/backends/remote/wire/stop_strings.h"

namespace espalier::lang::anthropic {
namespace {

constexpr int kDefaultTokens = 1024;  // the interface wants a number
constexpr std::string_view kBlanks = " \t\n\r\f\v";

Json content_of(const Message& message, const std::string& image_token) {
  if (message.pictures.empty()) return message.text;
  Json blocks = Json::array();
  for (const ContentPart& part : content_parts(message.text, message.pictures, image_token)) {
    Json block = Json::object();
    if (part.picture) {
      block["type"] = "image";
      block["source"] = {
          {"type", "base64"}, {"media_type", part.picture->media_type}, {"data", base64(part.picture->bytes)}};
    } else {
      block["type"] = "text";
      block["text"] = part.text;
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

Result<> write_turns(const AnthropicProfile& profile, const Document& document, const GenCall& call, Json& body) {
  ESP_TRY(const Conversation conversation, conversation_of(document, "Anthropic's interface", Roles::optional));
  std::string system;
  Json messages = Json::array();
  for (const Message& turn : conversation.turns) {
    if (turn.role == "system")
      system += (system.empty() ? "" : "\n\n") + turn.text;
    else
      messages.push_back({{"role", turn.role}, {"content", content_of(turn, profile.image_token)}});
  }
  if (messages.empty())
    return bad_request("Anthropic's interface needs a user's turn before the assistant's", "messages");
  const auto said = conversation.prefill.substr(0, conversation.prefill.find_last_not_of(kBlanks) + 1);
  if (!said.empty() && anthropic_constrains(call))
    return bad_request(
        "Anthropic's interface holds a JSON schema only in a turn of the assistant's that is still empty",
        "json_schema");
  if (!said.empty()) messages.push_back({{"role", "assistant"}, {"content", said}});
  if (!system.empty()) body["system"] = system;
  body["messages"] = std::move(messages);
  return success();
}

Result<> write_constraint(const Constraint& asked, Json& body) {
  auto schema = parse_json(asked.text);
  if (!schema.ok()) return bad_request(fmt::format("json_schema: {}", schema.error().message), "json_schema");
  body["output_config"]["format"] = {{"type", "json_schema"}, {"schema", std::move(*schema)}};
  return success();
}

Result<> check_pictures(const Document& document) {
  for (const auto& picture : document.pictures)
    if (picture->kind == Picture::Kind::video)
      return Error{Error::Kind::unsupported, "Anthropic's interface takes pictures, but no video", "video", {}};
  return success();
}

}  // namespace

std::vector<std::string_view> left_out_by_anthropic(const GenCall& call) {
  const SamplingParams& p = call.sampling;
  std::vector<std::string_view> names;
  const auto note = [&](bool asked, std::string_view name) {
    if (asked) names.push_back(name);
  };
  note(p.min_p > 0, "min_p");
  note(p.frequency_penalty != 0, "frequency_penalty");
  note(p.presence_penalty != 0, "presence_penalty");
  note(p.repetition_penalty != 1, "repetition_penalty");
  note(!p.logit_bias.empty(), "logit_bias");
  note(p.seed.has_value(), "seed");
  note(call.return_logprob, "return_logprob");
  return names;
}

bool anthropic_constrains(const GenCall& call) {
  return call.constraint.kind == Constraint::Kind::json_schema;
}

Result<Json> write_anthropic(const AnthropicProfile& profile, const Document& document, const GenCall& call) {
  const SamplingParams& p = call.sampling;
  ESP_CHECK(check_stop_tokens(p, "Anthropic's interface"));
  ESP_CHECK(check_pictures(document));
  Json body = Json::object();
  body["model"] = profile.model;
  body["max_tokens"] = p.max_new_tokens.value_or(kDefaultTokens);
  ESP_CHECK(write_turns(profile, document, call, body));
  if (p.temperature != 1) body["temperature"] = p.temperature;
  if (p.top_p != 1) body["top_p"] = p.top_p;
  if (p.top_k > 0) body["top_k"] = p.top_k;
  if (!p.stop.empty()) body["stop_sequences"] = p.stop;
  if (anthropic_constrains(call)) ESP_CHECK(write_constraint(call.constraint, body));
  if (call.stream) body["stream"] = true;
  return body;
}

}  // namespace espalier::lang::anthropic
