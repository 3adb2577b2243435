#include "server/llamacpp/completion_body.h"

#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "server/fields/sampling_fields.h"

namespace espalier::server {
namespace {

using B = LlamaCppBody;
constexpr std::size_t kMostExtraFiles = 256, kMostResponseFields = 256;

Result<> read_length(B& out, const Json& value, std::string_view place) {
  return read_llama_length(out.sampling, value, place);
}

Result<> read_choices_count(B& out, const Json& value, std::string_view place) {
  ESP_TRY(out.sampling.n, as_int(value, place, {1, SamplingLimits::n}));
  return success();
}

Result<> read_biases(B& out, const Json& value, std::string_view place) {
  ESP_TRY(out.biases, read_bias_entries(value, place));
  return success();
}

Result<> read_samplers(B& out, const Json& value, std::string_view place) {
  return keep_samplers(out.sampling, value, place);
}

Result<> read_response_fields(B& out, const Json& value, std::string_view place) {
  ESP_TRY(out.response_fields, as_strings(value, place));
  if (out.response_fields.size() <= kMostResponseFields) return success();
  return bad_request(fmt::format("{} has more than {} entries", place, kMostResponseFields), std::string(place));
}

Result<> read_post_sampling(B&, const Json& value, std::string_view place) {
  ESP_TRY(const bool wanted, as_bool(value, place));
  if (!wanted) return success();
  return bad_request(fmt::format("{} is not supported: completion_probabilities are of the model's own distribution; "
                                 "leave it out",
                                 place),
                     std::string(place), "unsupported_parameter");
}

// Read before, to have the adapter in memory (adapters/named_adapters.h).
Result<> read_adapters(B&, const Json&, std::string_view) {
  return success();
}

Result<> read_older_pictures(B&, const Json& value, std::string_view place) {
  if (!asks_for_something(value)) return success();
  return bad_request(fmt::format("{} is llama.cpp's older way; a prompt {{\"prompt_string\": ..., \"multimodal_data\": "
                                 "[...]}} brings pictures",
                                 place),
                     std::string(place), "unsupported_parameter");
}

constexpr FieldRow<B> kLlamaCppRows[] = {
    {"image_data", &read_older_pictures, "none", "refused: prompt_string and multimodal_data bring pictures"},
    {"model", &B::model, "the served model", "a served name, \"default\" or nothing"},
    {"n_predict", &read_length, "-1", "tokens of the output; -1 = to the context limit, 0 = only read the prompt"},
    {"max_tokens", &read_length, "-1", "the same"},
    {"stream", &B::stream, "false", "server-sent events"},
    {"n_probs", &B::probabilities, "0", "likeliest tokens of each position (--max-logprobs)", {0, 1e9}},
    {"return_tokens", &B::return_tokens, "false", "adds the ids of the output's tokens"},
    {"timings_per_token", &B::timings_per_token, "false", "timings in every event of a stream"},
    {"response_fields", &read_response_fields, "all", "names, or NAME/NAME, of what the last object tells"},
    {"id_slot", &B::slot, "-1", "told back: there are no slots"},
    {"n_cmpl", &read_choices_count, "1", "continuations of each prompt"},
    {"n", &read_choices_count, "1", "the same"},
    {"logit_bias", &read_biases, "none", "[[token or text, number or false], ...] or an object; -100..100"},
    {"samplers", &read_samplers, "all", "those that are left out do nothing; their order has no effect"},
    {"post_sampling_probs", &read_post_sampling, "false", "only false"},
    {"lora", &read_adapters, "none",
     "[{\"id\": N, \"scale\": 1}]: the adapter of that id of /lora-adapters; one at most"},
    kAdapterRow<B>,
    {"cache_salt", &read_short<B, &B::cache_salt, kMostSaltBytes>, "none",
     "requests of different salts share no cached prefix"},
    {"priority", &B::priority, "0", "larger runs first under --schedule-policy priority", {-1e9, 1e9}},
};

constexpr std::string_view kLlamaCppAccepted[] = {
    "cache_prompt",    "n_keep",           "n_discard",        "n_indent",          "n_cache_reuse",
    "t_max_prompt_ms", "t_max_predict_ms", "return_progress",  "sse_ping_interval", "backend_sampling",
    "slot_id",         "chat_format",      "reasoning_format", "generation_prompt"};

Result<LlamaCppBody> parse_rest(const Json& body, const ServerOptions& options, const SamplingParams& defaults) {
  LlamaCppBody out;
  out.sampling = defaults;
  ESP_CHECK(refuse_unread_constraints(body, unknown_llamacpp_fields(body)));
  ESP_CHECK(check_refused(body, refused_sampling_fields()));
  ESP_CHECK(read_fields(body, llama_sampling_rows(), out.sampling));
  ESP_CHECK(read_fields(body, llamacpp_rows(), out));
  ESP_CHECK(read_fields(body, openai_constraint_rows(), out.constraint));
  ESP_CHECK(check_logprobs_asked("n_probs", out.probabilities, options));
  return out;
}

Result<std::vector<InfillFile>> read_extra(const Json& body) {
  std::vector<InfillFile> files;
  ESP_TRY(const Json* extra, find_array(body, "input_extra"));
  if (extra == nullptr) return files;
  if (extra->size() > kMostExtraFiles)
    return bad_request(fmt::format("input_extra has more than {} entries", kMostExtraFiles), "input_extra");
  for (std::size_t i = 0; i < extra->size(); ++i) {
    const std::string place = fmt::format("input_extra[{}]", i);
    ESP_TRY(auto name, find_string((*extra)[i], {"filename", place}));
    ESP_TRY(std::string text, get_string((*extra)[i], {"text", place}));
    files.push_back({name.value_or("tmp"), std::move(text)});
  }
  return files;
}

}  // namespace

std::span<const FieldRow<LlamaCppBody>> llamacpp_rows() {
  return kLlamaCppRows;
}

std::span<const std::string_view> llamacpp_accepted_names() {
  return kLlamaCppAccepted;
}

std::vector<std::string> unknown_llamacpp_fields(const Json& body) {
  static const KnownNames known = KnownNames()
                                      .with(llamacpp_rows())
                                      .with(llama_sampling_rows())
                                      .with(llama_accepted_names())
                                      .with(openai_constraint_rows())
                                      .with(refused_sampling_fields())
                                      .with(std::span<const std::string_view>(kLlamaCppAccepted))
                                      .with({"prompt", "input_prefix", "input_suffix", "input_extra"});
  return known.unknown_in(body);
}

Result<LlamaCppBody> parse_llamacpp_completion(const Json& body, const ServerOptions& options,
                                               const SamplingParams& defaults) {
  const Json* prompt = find_field(body, "prompt");
  if (prompt == nullptr) return bad_request("prompt is missing", "prompt");
  ESP_TRY(LlamaCppBody out, parse_rest(body, options, defaults));
  ESP_TRY(out.prompts, parse_mixed_prompts(*prompt, "prompt", options.max_prompts));
  return out;
}

Result<LlamaCppBody> parse_llamacpp_infill(const Json& body, const ServerOptions& options,
                                           const SamplingParams& defaults) {
  ESP_TRY(LlamaCppBody out, parse_rest(body, options, defaults));
  InfillPrompt infill;
  ESP_TRY(infill.prefix, get_string(body, "input_prefix"));
  ESP_TRY(infill.suffix, get_string(body, "input_suffix"));
  ESP_TRY(infill.files, read_extra(body));
  ESP_TRY(const auto prompt, find_string(body, "prompt"));
  infill.prefix += prompt.value_or("");  // what the line of the cursor has already
  out.infill = std::move(infill);
  return out;
}

}  // namespace espalier::server
