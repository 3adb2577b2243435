// completion_body.h: a body of llama.cpp's /completion and /infill.
//
// Fields that only llama.cpp's own scheduling has (cache_prompt, id_slot, n_keep ...) are accepted without an effect:
// the prefix cache is shared by all requests, and there are no slots.
// Threads: values and pure functions. Fails: bad_request naming the field.
// Source:  llama.cpp, tools/server/README.md.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/fields/constraint_fields.h"
#include "server/fields/llama_fields.h"
#include "server/prompt/infill.h"
#include "server/prompt/mixed_prompt.h"
#include "server/server_options.h"

namespace espalier::server {

// What such a body asks for.
struct LlamaCppBody {
  std::vector<MixedPrompt> prompts;    // of /completion
  std::optional<InfillPrompt> infill;  // of /infill
  SamplingParams sampling;
  std::vector<BiasEntry> biases;
  ConstraintFields constraint;
  bool stream = false;
  int probabilities = 0;  // n_probs
  bool return_tokens = false, timings_per_token = false;
  std::vector<std::string> response_fields;  // of the last object; empty: all
  int slot = -1;                             // told back
  std::string model;
  // As the other dialects have them, for treatment().
  std::string cache_salt, extra_key, user;
  int priority = 0;
  bool background = false;
  std::optional<int> deadline_ms;
};

std::span<const FieldRow<LlamaCppBody>> llamacpp_rows();
std::span<const std::string_view> llamacpp_accepted_names();  // that change nothing
std::vector<std::string> unknown_llamacpp_fields(const Json& body);
// `defaults`: what a body that says nothing gets.
Result<LlamaCppBody> parse_llamacpp_completion(const Json& body, const ServerOptions& options,
                                               const SamplingParams& defaults);
Result<LlamaCppBody> parse_llamacpp_infill(const Json& body, const ServerOptions& options,
                                           const SamplingParams& defaults);

}  // namespace espalier::server
