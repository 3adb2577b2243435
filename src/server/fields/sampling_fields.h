// sampling_fields.h: the sampling fields of bodies, in SGLang's native spelling and in OpenAI's with its extensions.
//
// Ranges are stated twice, here for the message and the documentation and in SamplingParams::validate() for everybody.
// Threads: constant tables. Fails: bad_request naming the field.
#pragma once

#include <span>

#include "espalier/sampling.h"
#include "server/fields/field_table.h"
#include "server/server_options.h"

namespace espalier::server {

// What stands inside "sampling_params" of /generate.
std::span<const FieldRow<SamplingParams>> native_sampling_rows();
// What stands at the top of /v1/completions and /v1/chat/completions, lengths of output left out.
std::span<const FieldRow<SamplingParams>> openai_sampling_rows();

// Constraints and other things that must never be ignored silently. The second adds what only OpenAI's bodies have.
std::span<const RefusedField> refused_sampling_fields();
std::span<const RefusedField> refused_openai_fields();

// {"50256": -100, ...}: ids of the model as strings; each at most once.
Result<> read_logit_bias(SamplingParams& out, const Json& value, std::string_view place);

// Whether a body asks for no more log-probabilities than --max-logprobs gives.
Result<> check_logprobs_asked(std::string_view field, int asked, const ServerOptions& options);

}  // namespace espalier::server
