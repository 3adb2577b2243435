// constraint_fields.h: what bodies ask of the form of the output, in every client's spelling.
//
// SGLang's regex, json_schema, ebnf, structural_tag; OpenAI's response_format; vLLM's guided_* and structured_outputs;
// llama.cpp's grammar. All become one Constraint; a request may have one.
// Threads: pure functions over constant tables; constrain() compiles, for at most kQuickCompile on the way of short
//          requests (handler.h).
// Fails:   bad_request or unsupported (422) naming the field, and inside a schema the JSON pointer.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/json/json.h"
#include "espalier/request.h"
#include "server/fields/field_table.h"

namespace espalier::server {

struct Call;

// The constraint that a body asks for, and the field that asked for it.
struct ConstraintFields {
  Constraint constraint;  // constrain() adds the special tokens that a structural tag names
  std::string place;      // the field that asks for it
  std::optional<bool> flexible_whitespace;
  bool json_closing = false;
  std::string choices_method;  // of /generate: choices are scored instead of generated (native/select.h)
  std::shared_ptr<grammar::Grammar> compiled;  // once constrain() has been here: for all prompts of a body
};

std::span<const FieldRow<ConstraintFields>> native_constraint_rows();  // of sampling_params and of the body around it
std::span<const FieldRow<ConstraintFields>> openai_constraint_rows();  // of the body

// Of the unknown members of an object: one that is named like a constraint is not passed over, since free text would
// come where its sender expects a form.
Result<> refuse_unread_constraints(const Json& object, std::span<const std::string> unknown,
                                   std::string_view parent = {});

// How bodies are read: schemas stay the text that they are, which whoever compiles them reads; numbers of constraints
// are taken as they are written, and others become doubles behind it.
JsonLimits request_limits();
Result<> round_numbers_outside_constraints(Json& body);

// Of a body that was read and is not read again (Call::may_be_slow): the texts of its schemas, which are large.
void forget_schemas(Call& call);

// A constraint that takes longer to compile is left to the slow pool (Call::run_again_slowly).
inline constexpr std::chrono::milliseconds kQuickCompile{25};

// Sets the grammar. The constraint's text goes to who compiles it, and need not be kept beside it.
Result<> constrain(const Call& call, ConstraintFields& asked, RequestFields& fields);

}  // namespace espalier::server
