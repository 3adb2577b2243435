// program_result.h: what a run has come to, as JSON.
//
// A variable that failed is told by its name, beside those that are there.
// Threads: pure functions; of a state that has settled they wait for nobody. Fails: never.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "espalier/json.h"
#include "lang/execute/stream_executor.h"

namespace espalier::server {

Json error_to_json(const Error& error);  // {"kind", "message", "field", "code"}
Json value_to_json(const Value& value);  // a string, or a list

// {"variables", "meta", "text", "messages", "errors", "error"}; with `outputs` only those variables, and no text.
Json run_to_json(lang::StreamExecutor& state, const std::optional<std::vector<std::string>>& outputs);

std::string json_text(const Json& json);

}  // namespace espalier::server
