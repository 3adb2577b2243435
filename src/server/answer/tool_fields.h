// tool_fields.h: what a body says of tools: which there are, which of them the model must or may call, and how many.
//
// Threads: pure functions. Fails: bad_request naming the field.
// Source:  OpenAI's API reference (tools, tool_choice, parallel_tool_calls).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "server/fields/field_table.h"
#include "server/server_options.h"
#include "text/answer/call_tools.h"

namespace espalier::server {

// One function that the model may call.
struct Tool {
  std::string name, parameters;  // its schema as JSON text; empty: any object
  bool strict = false;
};

// Tools of a request.
struct ToolFields {
  enum class Choice { none, automatic, required };
  Json shown;                         // as the chat template gets them; null: none
  std::vector<Tool> tools;            // those that may be called: all, those that are allowed, or the one that is named
  Choice choice = Choice::automatic;  // none as soon as there are no tools
  bool parallel = true;               // several calls in one answer
  bool offers() const { return !tools.empty() && choice != Choice::none; }
  std::shared_ptr<const CallTools> known;  // how arguments are read; null without tools
};

// tools, tool_choice and parallel_tool_calls of a chat completion's body.
Result<ToolFields> read_tool_fields(const Json& body, const ServerOptions& options);

}  // namespace espalier::server
