#include "lang/backends/gemini/gemini_wire.h"

#include <fmt/format.h>

#include "base/base64.h"
#include "base/json/json.h"
#include "lang/backends/remote/wire/content_parts.h"
#include "lang/backends/remote/wire/stop_strings.h"

namespace espalier::lang::gemini {
namespace {

using Kind = Constraint::Kind;

Json parts_of(const Message& message, const std::string& image_token) {
  Json parts = Json::array();
  for (const ContentPart& part : content_parts(message.text, message.pictures, image_token)) {
    Json one = Json::object();
    if (part.picture) {
      const bool video = part.picture->kind == Picture::Kind::video;
      const std::string& known = part.picture->media_type;
      one["inlineData"] = {{"mimeType", !known.empty() ? known
                                        : video        ? "video/mp4"
                                                       : "image/jpeg"},
                           {"data", base64(part.picture->bytes)}};
    } else {
      one["text"] = part.text;
    }
    parts.push_back(std::move(one));
  }
  if (parts.empty()) parts.push_back({{"text", ""}});
  return parts;
}

Result<> write_turns(const std::string& image_token, const Document& document, Json& body) {
  ESP_TRY(const Conversation conversation, conversation_of(document, "Gemini", Roles::optional));
  if (!conversation.prefill.empty())
    return bad_request(
        "Gemini begins its turn itself: a generation must directly follow the assistant's opening, as in "
        "s += assistant(gen(...)); say before it what is to be said, or let api_spec_tokens match a whole turn at once",
        "messages");
  Json system = Json::array(), contents = Json::array();
  for (const Message& turn : conversation.turns) {
    if (turn.role == "system") {
      for (Json& part : parts_of(turn, image_token)) system.push_back(std::move(part));
      continue;
    }
    Json content = Json::object();
    content["role"] = turn.role == "assistant" ? "model" : turn.role;
    content["parts"] = parts_of(turn, image_token);
    contents.push_back(std::move(content));
  }
  if (contents.empty()) return bad_request("Gemini needs a user's turn before the assistant's", "messages");
  if (!system.empty()) body["systemInstruction"]["parts"] = std::move(system);
  body["contents"] = std::move(contents);
  return success();
}

Result<> write_constraint(const Constraint& asked, Json& config) {
  if (asked.kind == Kind::json_schema || asked.kind == Kind::json_object)
    config["responseMimeType"] = "application/json";
  if (asked.kind == Kind::json_schema) {
    auto schema = parse_json(asked.text);
    if (!schema.ok()) return bad_request(fmt::format("json_schema: {}", schema.error().message), "json_schema");
    config["responseJsonSchema"] = std::move(*schema);
  }
  if (asked.kind == Kind::choice) {
    ESP_TRY(Json choices, parse_json(asked.text));
    config["responseMimeType"] = "text/x.enum";
    config["responseSchema"] = {{"type", "STRING"}, {"enum", std::move(choices)}};
  }
  return success();
}

Result<Json> write_config(const GenCall& call) {
  const SamplingParams& p = call.sampling;
  Json config = Json::object();
  if (p.max_new_tokens) config["maxOutputTokens"] = *p.max_new_tokens;
  config["temperature"] = p.temperature;  // models have defaults of their own
  config["topP"] = p.top_p;
  if (p.top_k > 0) config["topK"] = p.top_k;
  if (!p.stop.empty()) config["stopSequences"] = p.stop;
  if (p.frequency_penalty != 0) config["frequencyPenalty"] = p.frequency_penalty;
  if (p.presence_penalty != 0) config["presencePenalty"] = p.presence_penalty;
  if (p.seed) config["seed"] = static_cast<std::int32_t>(*p.seed & 0x7fffffffu);
  ESP_CHECK(write_constraint(call.constraint, config));
  return config;
}

}  // namespace

std::vector<std::string_view> left_out_by_gemini(const GenCall& call) {
  const SamplingParams& p = call.sampling;
  std::vector<std::string_view> names;
  if (p.min_p > 0) names.push_back("min_p");
  if (p.repetition_penalty != 1) names.push_back("repetition_penalty");
  if (!p.logit_bias.empty()) names.push_back("logit_bias");
  if (call.return_logprob) names.push_back("return_logprob");
  return names;
}

bool gemini_constrains(const GenCall& call) {
  const Kind kind = call.constraint.kind;
  return kind == Kind::json_schema || kind == Kind::json_object || kind == Kind::choice;
}

Result<Json> write_gemini(const std::string& image_token, const Document& document, const GenCall& call) {
  ESP_CHECK(check_stop_tokens(call.sampling, "Gemini"));
  Json body = Json::object();
  ESP_CHECK(write_turns(image_token, document, body));
  ESP_TRY(body["generationConfig"], write_config(call));
  return body;
}

}  // namespace espalier::lang::gemini
