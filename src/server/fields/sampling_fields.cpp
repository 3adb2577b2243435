#include "server/fields/sampling_fields.h"

#include <fmt/format.h>

#include <charconv>

namespace espalier::server {
namespace {

using P = SamplingParams;
using SamplingRow = FieldRow<SamplingParams>;
using L = SamplingLimits;

Result<> read_stop(P& out, const Json& value, std::string_view place) {
  ESP_TRY(out.stop, as_strings(value, place));
  // An empty string would stop before the first token; clients send "" for "none".
  std::erase(out.stop, std::string());
  return success();
}

Result<> read_stop_regex(P& out, const Json& value, std::string_view place) {
  ESP_TRY(out.stop_regex, as_strings(value, place));
  std::erase(out.stop_regex, std::string());
  return success();
}

// Seeds are 64 bits; negative ones are taken as they lie in memory, so -1 is a seed like any other.
Result<> read_seed(P& out, const Json& value, std::string_view place) {
  if (value.is_number_unsigned()) {
    out.seed = value.get<std::uint64_t>();
    return success();
  }
  if (value.is_number_float()) {
    return bad_request(fmt::format("{} must be an integer of 64 bits, but is {}", place, number_text(value)),
                       std::string(place));
  }
  ESP_TRY(const std::int64_t seed, as_integer(value, place));
  out.seed = static_cast<std::uint64_t>(seed);
  return success();
}

// -1 and 0 both mean "all tokens"; SGLang refuses 0, vLLM's clients send it.
Result<> read_top_k(P& out, const Json& value, std::string_view place) {
  ESP_TRY(out.top_k, as_int(value, place, {-1, 1e9}));
  if (out.top_k == 0) out.top_k = -1;
  return success();
}

Result<> read_beam_width(P&, const Json& value, std::string_view place) {
  ESP_TRY(const int width, as_int(value, place, {1, 1e9}));
  if (width == 1) return success();
  return bad_request(fmt::format("{} is {}, but beam search is not part of this server; leave it out", place, width),
                     std::string(place), "unsupported_parameter");
}

constexpr SamplingRow kStop{"stop", &read_stop, "none", "string or list of up to 16; ends the text where it is found"};
constexpr SamplingRow kStopTokens{"stop_token_ids", &P::stop_token_ids, "none", "ids that end the output"};
constexpr SamplingRow kStopRegex{"stop_regex", &read_stop_regex, "none",
                                 "pattern or list of up to 16; ends the text where a match ends first"};
constexpr SamplingRow kTrim{"no_stop_trim", &P::no_stop_trim, "false",
                            "keep what stopped it (string, match or token) in the text"};
constexpr SamplingRow kIgnoreEos{"ignore_eos", &P::ignore_eos, "false", "the model's end tokens do not end the output"};
constexpr SamplingRow kSkipSpecial{"skip_special_tokens", &P::skip_special_tokens, "true",
                                   "leave special tokens out of the text"};
constexpr SamplingRow kSpaces{"spaces_between_special_tokens", &P::spaces_between_special_tokens, "true",
                              "accepted for compatibility"};
constexpr SamplingRow kTemperature{
    "temperature", &P::temperature, "1", "0 picks the likeliest token", {0, L::temperature}};
constexpr SamplingRow kTopP{"top_p", &P::top_p, "1", "smallest set of tokens with this probability", {0, 1, true}};
constexpr SamplingRow kTopK{"top_k", &read_top_k, "-1", "only the k likeliest tokens; -1 = all"};
constexpr SamplingRow kMinP{"min_p", &P::min_p, "0", "only tokens this likely relative to the likeliest", {0, 1}};
constexpr SamplingRow kFrequency{
    "frequency_penalty", &P::frequency_penalty, "0", "for each occurrence in the output", {-2, 2}};
constexpr SamplingRow kPresence{
    "presence_penalty", &P::presence_penalty, "0", "for tokens that occur in the output", {-2, 2}};
constexpr SamplingRow kRepetition{
    "repetition_penalty", &P::repetition_penalty, "1", "multiplicative, prompt and output", {0, 10, true}};
constexpr SamplingRow kN{"n", &P::n, "1", "continuations of each prompt", {1, L::n}};
constexpr SamplingRow kBias{"logit_bias", &read_logit_bias, "none", "map of token id to -100..100, up to 4096 entries"};
constexpr SamplingRow kBeams{"beam_width", &read_beam_width, "1", "only 1: no beam search"};
constexpr FieldRange kCount{0, 1e9};

constexpr SamplingRow kNativeSampling[] = {
    {"max_new_tokens", &P::max_new_tokens, "128", "null = to the context limit, 0 = only read the prompt", kCount},
    {"min_new_tokens", &P::min_new_tokens, "0", "end and stop tokens are not chosen before", kCount},
    kStop,
    kStopTokens,
    kStopRegex,
    kTrim,
    kTemperature,
    kTopP,
    kTopK,
    kMinP,
    kFrequency,
    kPresence,
    kRepetition,
    kN,
    kIgnoreEos,
    kSkipSpecial,
    kSpaces,
    kBias,
    kBeams,
    {"sampling_seed", &read_seed, "random", "the same seed gives the same tokens, whatever else runs"},
};

constexpr SamplingRow kOpenAiSampling[] = {
    {"min_tokens", &P::min_new_tokens, "0", "end and stop tokens are not chosen before", kCount},
    kStop,
    kStopTokens,
    kStopRegex,
    kTrim,
    {"include_stop_str_in_output", &P::no_stop_trim, "false", "vLLM's name of no_stop_trim"},
    kTemperature,
    kTopP,
    kTopK,
    kMinP,
    kFrequency,
    kPresence,
    kRepetition,
    kN,
    kIgnoreEos,
    kSkipSpecial,
    kSpaces,
    kBias,
    kBeams,
    {"seed", &read_seed, "random", "the same seed gives the same tokens, whatever else runs"},
};

constexpr std::string_view kSounds = "is not supported: this version reads texts and pictures";

constexpr RefusedField kRefused[] = {
    {"audio_data", kSounds},
    {"use_beam_search", "is not supported: beam search is not part of this server"},
    {"custom_logit_processor", "is not supported: no code out of a request is ever run"},
    {"return_hidden_states", "is not supported by this version"},
    {"return_routed_experts", "is not supported by this version"},
    {"input_embeds", "is not supported by this version; send text or input_ids"},
};

constexpr RefusedField kRefusedOpenAi[] = {
    {"session_params", "is not supported here: sessions are turns of /generate"},
    {"functions", "is not supported: OpenAI replaced it by tools"},
    {"function_call", "is not supported: OpenAI replaced it by tool_choice"},
    {"chat_template", "is not accepted from requests; start the server with --chat-template"},
    {"audio", kSounds},
    {"image_data", "belongs to /generate: send pictures in messages"},
    {"video_data", "belongs to /generate: send films in messages"},
    {"web_search_options", "is not supported: this server opens no connections for requests", true},
    {"prompt_embeds", "is not supported by this version; send text or token ids"},
    {"truncate_prompt_tokens", "is not supported: a prompt is never shortened; shorten it yourself"},
};

}  // namespace

std::span<const SamplingRow> native_sampling_rows() {
  return kNativeSampling;
}
std::span<const SamplingRow> openai_sampling_rows() {
  return kOpenAiSampling;
}
std::span<const RefusedField> refused_sampling_fields() {
  return kRefused;
}
std::span<const RefusedField> refused_openai_fields() {
  return kRefusedOpenAi;
}

Result<> check_logprobs_asked(std::string_view field, int asked, const ServerOptions& options) {
  if (asked <= options.max_logprobs) return success();
  return bad_request(
      fmt::format("{} is {}, but at most {} are given (--max-logprobs)", field, asked, options.max_logprobs),
      std::string(field));
}

Result<> read_logit_bias(SamplingParams& out, const Json& value, std::string_view place) {
  if (!value.is_object()) {
    return bad_request(fmt::format("{} must be an object of token id to number", place), std::string(place));
  }
  if (value.size() > L::logit_biases) {
    return bad_request(
        fmt::format("{} has {} entries, but at most {} are accepted", place, value.size(), L::logit_biases),
        std::string(place));
  }
  out.logit_bias.clear();
  for (const auto& [name, number] : value.get_ref<const Json::object_t&>()) {
    TokenId id = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id < 0) {
      return bad_request(fmt::format("{} has the key {}, but keys must be token ids", place, in_quotes(name, 40)),
                         std::string(place));
    }
    ESP_TRY(const double bias, as_number(number, fmt::format("{}.{}", place, id), {-100, 100}));
    out.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
  return success();
}

}  // namespace espalier::server
