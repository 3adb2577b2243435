// llama_fields.h: sampling as llama.cpp and Ollama spell it, in /completion and in the `options` of /api routes.
//
// What this server has no sampler for is refused where it is switched on and passed over where it is off, for clients
// send all fields that they know. Penalties look at all of prompt and output: repeat_last_n only switches them off (0).
// Threads: constant tables and pure functions. Fails: bad_request naming the field.
// Source:  llama.cpp's server (tools/server/README.md), Ollama's API (docs/api.md, modelfile.md).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "espalier/sampling.h"
#include "server/fields/field_table.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

std::span<const FieldRow<SamplingParams>> llama_sampling_rows();
// Names that belong to samplers that are off.
std::span<const std::string_view> llama_accepted_names();

// n_predict and num_predict: a negative number is no limit.
Result<> read_llama_length(SamplingParams& out, const Json& value, std::string_view place);

// `samplers`: those that are left out do nothing. A list of names, or a string of llama.cpp's letters.
Result<> keep_samplers(SamplingParams& out, const Json& value, std::string_view place);

// Of logit_bias: a token or a text, each of whose tokens it is for.
using BiasEntry = std::pair<std::variant<TokenId, std::string>, float>;
// A list of [token or text, number or false], or an object of them. false: never.
Result<std::vector<BiasEntry>> read_bias_entries(const Json& value, std::string_view place);
// Requires: `place` is what the client calls the field. Biases of one token add up.
Result<> apply_bias(SamplingParams& out, const std::vector<BiasEntry>& entries, const Tokenizer* tokenizer,
                    std::string_view place);

}  // namespace espalier::server
