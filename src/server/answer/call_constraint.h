// call_constraint.h: the form that an output must have where it calls tools, as a structural tag.
//
// A call that must come, or that is opened freely, can then not be invalid: its name is one of the tools' and its
// arguments satisfy the schema (where calls are free, the schema of strict tools only; else they are a JSON object).
// Families whose arguments cannot be enforced in their own way of writing are made to write plain JSON when a call must
// come; free calls of theirs are left alone.
// Threads: pure functions. Fails: never; schemas are checked by who compiles the constraint.
// Source:  xgrammar's structural tags (grammar/tags/structural_tag.h).
#pragma once

#include <optional>

#include "espalier/grammar.h"
#include "server/answer/tool_fields.h"
#include "text/answer/call_format.h"

namespace espalier::server {

// A constraint, and the format in which the calls then come.
struct CallConstraint {
  Constraint constraint;
  const CallFormat* format = nullptr;
};

// The whole output is one call, or several where they may be.
CallConstraint required_calls(const ToolFields& tools, const CallFormat* format);
// Free text in which calls may be opened; none where the format has no mark that opens one.
std::optional<CallConstraint> free_calls(const ToolFields& tools, const CallFormat* format);

}  // namespace espalier::server
