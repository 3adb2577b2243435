// thinking_fields.h: what a body says of thinking: whether the model does, how hard, and for how many tokens at most.
//
// Templates read reasoning_effort, enable_thinking or thinking; arguments that the body gives itself win. The budget is
// the server's own: at its end the closing mark is forced. An effort is a budget where the template does not read it.
// Threads: pure functions. Fails: bad_request naming the field.
// Source:  OpenAI (reasoning_effort), Anthropic (thinking), OpenRouter (reasoning), vLLM (thinking_token_budget), SGLang
//          (custom_params.thinking_budget).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/fields/field_table.h"

namespace espalier::server {

// How much a request wants the model to think.
struct ThinkingFields {
  std::optional<int> budget;  // tokens
  std::string effort;         // "": nothing was said
  // Asked of the template; those of chat_template_kwargs win.
  Json arguments = Json::object();
};

Result<> read_effort(ThinkingFields& out, const Json& value, std::string_view place);
Result<> read_thinking(ThinkingFields& out, const Json& value, std::string_view place);
Result<> read_reasoning(ThinkingFields& out, const Json& value, std::string_view place);
Result<> read_thinking_budget(ThinkingFields& out, const Json& value, std::string_view place);

// Tokens that an effort may think for where the template leaves it to the server; nothing: no limit.
std::optional<int> budget_of_effort(std::string_view effort);

}  // namespace espalier::server
