#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "bench/load/dialects.h"

namespace espalier::bench {
namespace {

class OpenAiReader final : public AnswerReader {
 public:
  using AnswerReader::AnswerReader;

 protected:
  Result<> take(Json message) override {
    if (const Json* choices = find_field(message, "choices"); choices && choices->is_array())
      for (const Json& choice : *choices) ESP_CHECK(take_choice(choice));
    if (const Json* usage = find_field(message, "usage")) ESP_CHECK(take_usage(*usage));
    take_ids(message, "prompt_token_ids", outcome_.prompt_ids);
    const Json* timings = find_field(message, "timings");  // llama.cpp tells it here
    const Json* reused = timings ? find_field(*timings, "cache_n") : nullptr;
    if (reused && reused->is_number_integer() && !outcome_.cached_tokens) outcome_.cached_tokens = reused->get<int>();
    return success();
  }

 private:
  Result<> take_choice(const Json& choice) {
    if (!choice.is_object()) return bad_request("the server's answer holds a choice that is no object");
    const Json* index = find_field(choice, "index");
    const bool first = !index || *index == 0;
    const std::string piece = text_of(choice);
    if (!piece.empty() && !first) ++chunks_;
    if (!piece.empty() && first) {
      outcome_.text += piece;
      tokens_came(1);
    }
    if (const Json* reason = find_field(choice, "finish_reason"); reason && reason->is_string()) {
      ended_ = true;
      if (first) outcome_.finish_reason = reason->get<std::string>();
    }
    if (first) take_ids(choice, "prompt_token_ids", outcome_.prompt_ids);
    if (first) take_ids(choice, "token_ids", outcome_.output_ids);
    return success();
  }

  // Text of a completion, content or reasoning of a chat's delta or message: each is what the model wrote.
  static std::string text_of(const Json& choice) {
    std::string text;
    const auto append = [&](const Json* value) {
      if (value && value->is_string()) text += value->get_ref<const std::string&>();
    };
    append(find_field(choice, "text"));
    for (const char* holder : {"delta", "message"})
      if (const Json* said = find_field(choice, holder)) {
        append(find_field(*said, "reasoning_content"));
        append(find_field(*said, "content"));
      }
    return text;
  }

  static void take_ids(const Json& choice, std::string_view name, std::vector<TokenId>& into) {
    const Json* ids = find_field(choice, name);
    if (!ids || !ids->is_array()) return;
    for (const Json& id : *ids)
      if (id.is_number_integer()) into.push_back(id.get<TokenId>());
  }

  Result<> take_usage(const Json& usage) {
    ESP_TRY(const auto prompt, find_integer(usage, {"prompt_tokens", "usage"}, {0, 1'000'000'000}));
    ESP_TRY(const auto output, find_integer(usage, {"completion_tokens", "usage"}, {0, 1'000'000'000}));
    if (prompt) outcome_.prompt_tokens = static_cast<int>(*prompt);
    if (output) {
      outcome_.output_tokens = static_cast<int>(*output);
      counted_ = true;
    }
    const Json* details = find_field(usage, "prompt_tokens_details");
    const Json* cached = details ? find_field(*details, "cached_tokens") : nullptr;
    if (cached && cached->is_number_integer()) outcome_.cached_tokens = cached->get<int>();
    return success();
  }
};

std::string gbnf_one_of(const std::vector<std::string>& choices) {
  std::string grammar = "root ::= ";
  for (std::size_t i = 0; i < choices.size(); ++i)
    grammar += (i > 0 ? " | " : "") + Json(choices[i]).dump(-1, ' ', false, Json::error_handler_t::replace);
  return grammar;
}

}  // namespace

std::string one_of(const std::vector<std::string>& choices) {
  constexpr std::string_view kSpecial = R"(\.^$|?*+()[]{}/-)";
  std::string regex = "(";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) regex += '|';
    for (const char c : choices[i]) {
      if (kSpecial.find(c) != std::string_view::npos) regex += '\\';
      regex += c;
    }
  }
  return regex + ")";
}

std::string OpenAiDialect::path() const {
  if (!options_.endpoint.empty()) return options_.endpoint;
  return chat_ ? "/v1/chat/completions" : "/v1/completions";
}

std::unique_ptr<AnswerReader> OpenAiDialect::reader(double sent) const {
  return std::make_unique<OpenAiReader>(sent);
}

void OpenAiDialect::write_prompt(const Call& call, Json& body) const {
  if (const auto* messages = std::get_if<Messages>(&call.prompt)) {
    body["messages"] = messages->list;
    if (messages->continues_last) {
      body["continue_final_message"] = true;
      body["add_generation_prompt"] = false;
    }
  } else if (const auto* text = std::get_if<std::string>(&call.prompt)) {
    if (chat_)
      body["messages"] = Json::array({{{"role", "user"}, {"content", *text}}});
    else
      body["prompt"] = *text;
  } else {
    body["prompt"] = std::get<std::vector<TokenId>>(call.prompt);
  }
}

void OpenAiDialect::write_constraint(const Constraint& c, Json& body) const {
  if (c.empty()) return;
  switch (constraints_) {
    case Backend::Constraints::sglang:
      if (!c.json_schema.is_null()) body["json_schema"] = c.json_schema.dump();
      if (!c.regex.empty()) body["regex"] = c.regex;
      if (!c.choices.empty()) body["regex"] = one_of(c.choices);
      return;
    case Backend::Constraints::vllm:
      if (!c.json_schema.is_null()) body["structured_outputs"] = {{"json", c.json_schema}};
      if (!c.regex.empty()) body["structured_outputs"] = {{"regex", c.regex}};
      if (!c.choices.empty()) body["structured_outputs"] = {{"choice", c.choices}};
      return;
    case Backend::Constraints::llamacpp:
      if (!c.json_schema.is_null()) body["json_schema"] = c.json_schema;
      if (!c.choices.empty()) body["grammar"] = gbnf_one_of(c.choices);
      return;
    case Backend::Constraints::openai:
      if (!c.json_schema.is_null())
        body["response_format"] = {{"type", "json_schema"},
                                   {"json_schema", {{"name", "output"}, {"schema", c.json_schema}}}};
      return;
  }
}

Json OpenAiDialect::write(const Call& call) const {
  Json body = call.verbatim.is_object() ? call.verbatim : Json::object();
  if (!options_.model.empty() && !body.contains("model")) body["model"] = options_.model;
  if (!call.adapter.empty()) body["model"] = call.adapter;
  if (call.verbatim.is_null()) {
    write_prompt(call, body);
    body["max_tokens"] = call.max_tokens;
    body["temperature"] = call.temperature.value_or(options_.temperature);
    if (options_.sampling.is_object()) body.update(options_.sampling);
    if (call.ignore_eos) body["ignore_eos"] = true;
    if (!call.stop.empty()) body["stop"] = call.stop;
    if (call.samples > 1) body["n"] = call.samples;
    write_constraint(call.constraint, body);
  }
  body["stream"] = options_.stream;
  if (options_.stream) body["stream_options"] = {{"include_usage", true}};
  if (options_.return_logprob) body["logprobs"] = chat_ ? Json(true) : Json(0);
  if (options_.ask_ids) body["return_token_ids"] = true;
  return body;
}

}  // namespace espalier::bench
