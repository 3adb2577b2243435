#include "lang/backends/openai/openai_wire.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"
#include "lang/backends/openai/strict_schema.h"
#include "lang/backends/remote/wire/content_parts.h"
#include "lang/backends/remote/wire/regex_of_choices.h"
#include "lang/backends/remote/wire/stop_strings.h"

namespace espalier::lang::openai {
namespace {

using Kind = Constraint::Kind;

Error unsupported(std::string_view what, std::string_view field) {
  return {Error::Kind::unsupported,
          fmt::format("an OpenAI server takes no {}: leave it out, or use the native or the local back end", what),
          std::string(field),
          {}};
}

void write_extensions(OpenAiServer kind, const SamplingParams& p, Json& body) {
  body["top_k"] = p.top_k;
  body["min_p"] = p.min_p;
  body["repetition_penalty"] = p.repetition_penalty;
  if (p.min_new_tokens > 0) body["min_tokens"] = p.min_new_tokens;
  if (!p.stop_token_ids.empty()) body["stop_token_ids"] = p.stop_token_ids;
  if (!p.stop_regex.empty()) body["stop_regex"] = p.stop_regex;
  if (p.ignore_eos) body["ignore_eos"] = true;
  if (p.no_stop_trim) body[kind == OpenAiServer::vllm ? "include_stop_str_in_output" : "no_stop_trim"] = true;
  if (!p.skip_special_tokens) body["skip_special_tokens"] = false;
}

Result<> write_sampling(const OpenAiProfile& profile, const GenCall& call, Json& body) {
  const SamplingParams& p = call.sampling;
  const bool newer_name = profile.own_defaults && profile.chat && !profile.model.empty();  // Azure knows the old one
  if (p.max_new_tokens) body[newer_name ? "max_completion_tokens" : "max_tokens"] = *p.max_new_tokens;
  const auto differs = [&](const char* name, double value, double usual, bool always = false) {
    if (always || value != usual) body[name] = value;
  };
  differs("temperature", p.temperature, 1, !profile.own_defaults);
  differs("top_p", p.top_p, 1, !profile.own_defaults);
  differs("frequency_penalty", p.frequency_penalty, 0);
  differs("presence_penalty", p.presence_penalty, 0);
  if (p.n > 1) body["n"] = p.n;
  if (p.seed) body["seed"] = *p.seed;
  if (!p.stop.empty()) body["stop"] = p.stop;
  for (const auto& [token, bias] : p.logit_bias) body["logit_bias"][std::to_string(token)] = bias;
  if (!profile.extended()) return check_stop_tokens(p, "an OpenAI server");
  write_extensions(profile.kind, p, body);
  return success();
}

void write_logprobs(const OpenAiProfile& profile, const GenCall& call, Json& body) {
  if (!call.return_logprob) return;
  const int top = call.top_logprobs_num.value_or(0);
  body["logprobs"] = profile.chat ? Json(true) : Json(top);
  if (profile.chat && top > 0) body["top_logprobs"] = top;
}

Result<> write_schema(const Constraint& asked, Json& body) {
  Json format = Json::object();
  format["type"] = asked.kind == Kind::json_schema ? "json_schema" : "json_object";
  if (asked.kind == Kind::json_schema) {
    auto schema = parse_json(asked.text);
    if (!schema.ok()) return bad_request(fmt::format("json_schema: {}", schema.error().message), "json_schema");
    const bool strict = is_strict_schema(*schema);
    format["json_schema"] = {{"name", "output"}, {"schema", std::move(*schema)}, {"strict", strict}};
  }
  body["response_format"] = std::move(format);
  return success();
}

Result<> write_extended_constraint(const OpenAiProfile& profile, const Constraint& asked, Json& body) {
  Json& holder = profile.kind == OpenAiServer::vllm ? body["structured_outputs"] : body;
  switch (asked.kind) {
    case Kind::regex:
      holder["regex"] = asked.text;
      return success();
    case Kind::choice: {
      ESP_TRY(const Json choices, parse_json(asked.text));
      holder["regex"] = regex_of_choices(choices);
      return success();
    }
    case Kind::ebnf:
      holder[profile.kind == OpenAiServer::vllm ? "grammar" : "ebnf"] = asked.text;
      return success();
    case Kind::json_schema:
    case Kind::json_object:
      body.erase("structured_outputs");
      return write_schema(asked, body);
    default:
      return unsupported("grammar of this kind", "constraint");
  }
}

// A completion model is led to a string by an opening quote, and to an integer by a bias towards digits (of which the
// tokens have the same ids in all vocabularies of these models) and the blank that ends it.
void lead_to_type(ValueType type, Json& body) {
  constexpr int kDigitZero = 15, kBlank = 220;
  if (type == ValueType::string) {
    body["prompt"] = body["prompt"].get<std::string>() + '"';
    body["stop"] = Json::array({"\""});
  } else if (type == ValueType::integer) {
    for (int digit = 0; digit <= 9; ++digit) body["logit_bias"][std::to_string(kDigitZero + digit)] = 100;
    body["logit_bias"][std::to_string(kBlank)] = 100;
    body["stop"] = Json::array({" "});
  }
}

bool is_led(const OpenAiProfile& profile, ValueType type) {
  return !profile.extended() && !profile.chat && (type == ValueType::string || type == ValueType::integer);
}

Result<> write_constraint(const OpenAiProfile& profile, const GenCall& call, Json& body) {
  if (is_led(profile, call.type)) {
    lead_to_type(call.type, body);
    return success();
  }
  const Kind kind = call.constraint.kind;
  if (kind == Kind::none) return success();
  if (profile.kind == OpenAiServer::espalier && call.json_closing) body["json_closing"] = true;
  if (profile.extended()) return write_extended_constraint(profile, call.constraint, body);
  // Others are checked when the output is there.
  if (profile.chat && (kind == Kind::json_schema || kind == Kind::json_object))
    return write_schema(call.constraint, body);
  return success();
}

Json content_of(const OpenAiProfile& profile, const Message& message) {
  if (message.pictures.empty()) return message.text;
  Json parts = Json::array();
  for (const ContentPart& part : content_parts(message.text, message.pictures, profile.image_token)) {
    if (!part.picture)
      parts.push_back({{"type", "text"}, {"text", part.text}});
    else
      parts.push_back({{"type", "image_url"}, {"image_url", {{"url", data_uri(*part.picture)}}}});
  }
  return parts;
}

Result<> check_pictures(const OpenAiProfile& profile, const Document& document) {
  for (const auto& picture : document.pictures)
    if (picture->kind == Picture::Kind::video) return unsupported("video", "video");
  if (!profile.chat && !document.pictures.empty()) return unsupported("picture in a completion", "image");
  return success();
}

}  // namespace

bool is_chat_model(std::string_view model) {
  return !model.starts_with("gpt-3.5-turbo-instruct") && model != "davinci-002" && model != "babbage-002";
}

std::vector<std::string_view> left_out_by_openai(const OpenAiProfile& profile, const GenCall& call) {
  std::vector<std::string_view> names;
  if (profile.extended()) return names;
  if (call.sampling.top_k > 0) names.push_back("top_k");
  if (call.sampling.min_p > 0) names.push_back("min_p");
  if (call.sampling.repetition_penalty != 1) names.push_back("repetition_penalty");
  if (call.logprob_start_len) names.push_back("logprob_start_len");
  return names;
}

bool openai_constrains(const OpenAiProfile& profile, const GenCall& call) {
  const Kind kind = call.constraint.kind;
  if (profile.extended()) return kind != Kind::lark && kind != Kind::structural_tag;
  if (is_led(profile, call.type)) return true;
  if (!profile.chat) return false;
  if (kind == Kind::json_object) return true;
  const auto schema = kind == Kind::json_schema ? parse_json(call.constraint.text) : Result<Json>(Json());
  return kind == Kind::json_schema && schema.ok() && is_strict_schema(*schema);
}

Result<Json> openai_messages(const OpenAiProfile& profile, const Document& document, bool& goes_on) {
  const Roles roles = profile.text_is_turn ? Roles::optional : Roles::needed;
  ESP_TRY(const Conversation conversation, conversation_of(document, "an OpenAI chat model", roles));
  goes_on = !conversation.prefill.empty();
  if (goes_on && !profile.extended())
    return bad_request(
        "an OpenAI chat model begins its turn itself: a generation must directly follow the assistant's opening, as in "
        "s += assistant(gen(...)); say before it what is to be said, or let api_spec_tokens match a whole turn at once",
        "messages");
  Json messages = Json::array();
  for (const Message& turn : conversation.turns)
    messages.push_back({{"role", turn.role}, {"content", content_of(profile, turn)}});
  if (goes_on) messages.push_back({{"role", "assistant"}, {"content", conversation.prefill}});
  return messages;
}

Result<Json> write_openai(const OpenAiProfile& profile, const Document& document, const GenCall& call) {
  ESP_CHECK(check_pictures(profile, document));
  Json body = Json::object();
  if (!profile.model.empty()) body["model"] = profile.model;
  if (profile.chat) {
    bool goes_on = false;
    ESP_TRY(body["messages"], openai_messages(profile, document, goes_on));
    if (goes_on) {
      body["continue_final_message"] = true;
      body["add_generation_prompt"] = false;
    }
  } else {
    body["prompt"] = document.text;
  }
  ESP_CHECK(write_sampling(profile, call, body));
  write_logprobs(profile, call, body);
  ESP_CHECK(write_constraint(profile, call, body));
  if (call.stream) {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  return body;
}

}  // namespace espalier::lang::openai
