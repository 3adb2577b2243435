#include "server/openai/body_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "server/answer/treatment.h"
#include "server/fields/sampling_fields.h"
#include "server/fields/service_tier.h"
#include "server/prompt/prompt.h"

namespace espalier::server {
namespace {

using F = OpenAiFields;

Result<> read_stream_options(F& out, const Json& value, std::string_view place) {
  if (!value.is_object()) {
    return bad_request(fmt::format("{} must be an object", place), std::string(place));
  }
  ESP_TRY(const auto usage, find_boolean(value, {"include_usage", place}));
  ESP_TRY(const auto each, find_boolean(value, {"continuous_usage_stats", place}));
  ESP_CHECK(find_boolean(value, {"include_obfuscation", place}));
  out.include_usage = usage.value_or(false);
  out.continuous_usage = each.value_or(false);
  return success();
}

// "disabled" is what we always do: a prompt is never shortened.
Result<> read_truncation(F&, const Json& value, std::string_view place) {
  if (value == "disabled") return success();
  if (value == "auto") {
    return unsupported_parameter(
        fmt::format("{} can only be \"disabled\": a prompt is never shortened; shorten it yourself", place),
        std::string(place));
  }
  return bad_request(fmt::format("{} must be \"disabled\"", place), std::string(place));
}

Result<> read_modalities(F&, const Json& value, std::string_view place) {
  ESP_TRY(const auto wanted, as_strings(value, place));
  for (const auto& one : wanted) {
    if (one == "text") continue;
    return unsupported_parameter(fmt::format("{} has {}, but this server gives text only", place, in_quotes(one, 40)),
                                 std::string(place));
  }
  return success();
}

// {"type": "content", "content": a text, or parts of one}.
Result<> read_prediction(F& out, const Json& value, std::string_view place) {
  ESP_TRY(const std::string type, get_string(value, {"type", place}));
  if (type != "content")
    return bad_request(fmt::format("{}.type must be content", place), fmt::format("{}.type", place));
  const Json* content = find_field(value, "content");
  const std::string where = fmt::format("{}.content", place);
  if (content == nullptr) return bad_request(where + " is missing", where);
  if (content->is_string()) {
    out.prediction = content->get<std::string>();
    return success();
  }
  if (!content->is_array()) return bad_request(where + " must be a string or a list of text parts", where);
  out.prediction = "";
  for (std::size_t i = 0; i < content->size(); ++i) {
    ESP_TRY(const std::string text, get_string((*content)[i], {"text", fmt::format("{}[{}]", where, i)}));
    *out.prediction += text;
  }
  return success();
}

constexpr FieldRow<F> kRows[] = {
    {"model", &F::model, "the served model", "a served name, \"default\" or nothing"},
    {"stream", &F::stream, "false", "server-sent events"},
    {"stream_options", &read_stream_options, "none", "include_usage, continuous_usage_stats"},
    {"rid", &read_short<F, &F::rid, kMostIdBytes>, "made up", "the request's id, for /abort_request; up to 128 bytes"},
    {"cache_salt", &read_short<F, &F::cache_salt, kMostSaltBytes>, "none",
     "requests of different salts share no cached prefix"},
    {"extra_key", &read_short<F, &F::extra_key, kMostSaltBytes>, "none", "the same, SGLang's name; both count"},
    {"lora_path", &read_adapter_names<F>, "none",
     "a loaded adapter's name, or a list with one or null for each prompt"},
    {"priority", &F::priority, "0", "larger runs first under --schedule-policy priority", {-1e9, 1e9}},
    {"user", &read_short<F, &F::user, kMostSaltBytes>, "none", "who is asking, of the key: for --fair-tenants"},
    {"background", &F::background, "false", "runs only when nothing else waits, and gives way to what comes"},
    {"deadline_ms", &F::deadline_ms, "none", "waits at most so many milliseconds to begin, else 408", {1, 86'400'000}},
    {"return_token_ids", &F::return_token_ids, "false", "adds token_ids and prompt_token_ids"},
    {"timings", &F::timings, "false", "adds where the time went and how much of the prompt was cached"},
    {"best_of",
     &F::best_of,
     "n",
     "so many are made, and the n of the highest mean log-probability told; not streamed",
     {1, SamplingLimits::n}},
    {"suffix", &F::suffix, "none", "of completions: the text behind the output, for models that fill in the middle"},
    {"service_tier", &read_service_tier<F>, "default", "flex: as background; priority: as priority 1"},
    {"prediction", &read_prediction, "none",
     "type content, content: a text that much of the output may repeat; where it does, several tokens come in one "
     "step"},
    {"truncation", &read_truncation, "disabled", "only disabled: a prompt is never shortened"},
    {"modalities", &read_modalities, "text", "only text"},
};

constexpr std::string_view kAccepted[] = {"store",
                                          "metadata",
                                          "safety_identifier",
                                          "prompt_cache_key",
                                          "prompt_cache_retention",
                                          "session_id",
                                          "routed_dp_rank",
                                          "log_metrics",
                                          "no_logs",
                                          "custom_labels",
                                          "guided_decoding_backend",
                                          "bootstrap_host",
                                          "bootstrap_port",
                                          "bootstrap_room"};

}  // namespace

std::span<const FieldRow<OpenAiFields>> openai_rows() {
  return kRows;
}
std::span<const std::string_view> openai_accepted_names() {
  return kAccepted;
}

Result<OpenAiFields> read_openai_fields(const Json& body, const SamplingParams& sampling) {
  ESP_CHECK(check_refused(body, refused_sampling_fields()));
  ESP_CHECK(check_refused(body, refused_openai_fields()));
  OpenAiFields fields;
  ESP_CHECK(read_fields(body, openai_rows(), fields));
  ESP_CHECK(read_fields(body, openai_constraint_rows(), fields.constraint));
  if (fields.best_of > 1 && fields.best_of < sampling.n) {
    return bad_request(fmt::format("best_of is {}, but must be at least n, which is {}", fields.best_of, sampling.n),
                       "best_of");
  }
  if (fields.best_of > sampling.n && fields.stream) {
    return bad_request("best_of above n cannot be streamed: the best is known only at the end", "best_of");
  }
  return fields;
}

std::string request_id(const net::HttpRequest& http, const std::string& rid, std::size_t i, std::size_t count) {
  const std::string& base = rid.empty() ? http.id : rid;
  return count > 1 ? fmt::format("{}_{}", base, i) : base;
}

Result<RequestFields> common_fields(const Call& call, const OpenAiFields& common, const SamplingParams& sampling,
                                    std::size_t i, std::size_t count) {
  ESP_TRY(RequestFields fields, treatment(call, common, request_id(call.http, common.rid, i, count), i, count));
  fields.sampling = sampling;
  if (common.best_of > sampling.n) {  // chosen by their log-probabilities
    fields.sampling.n = common.best_of;
    fields.logprobs.enabled = true;
  }
  return fields;
}

Result<RequestFields> common_request(const Call& call, OpenAiFields& common, const SamplingParams& sampling,
                                     std::size_t i, std::size_t count) {
  ESP_CHECK(call.adapters.check_count(count));
  ESP_TRY(RequestFields fields, common_fields(call, common, sampling, i, count));
  ESP_CHECK(constrain(call, common.constraint, fields));
  return fields;
}

Result<std::vector<TokenId>> predicted_tokens(const ServedModel& model, const OpenAiFields& common) {
  if (!common.prediction || common.prediction->empty()) return std::vector<TokenId>();
  return encode_text(model, *common.prediction, {.add_special = false}, "prediction");
}

OpenAiReplyOptions common_reply(const Call& call, const OpenAiFields& common, const std::string& id_prefix, int n) {
  OpenAiReplyOptions options;
  options.id = id_prefix + (common.rid.empty() ? call.http.id : common.rid);
  options.model = call.model_name();
  options.fingerprint = call.model->fingerprint;
  options.weight_version = call.service.options.weight_version;
  options.created = static_cast<std::int64_t>(std::time(nullptr));
  options.stream = common.stream;
  options.include_usage = common.include_usage || call.service.options.always_include_usage;
  options.continuous_usage = common.continuous_usage;
  options.token_ids = common.return_token_ids;
  options.timings = common.timings;
  options.predicted = common.prediction.has_value();
  options.service_tier = common.service_tier;
  options.n = std::max(n, common.best_of);
  options.best = common.best_of > n ? n : 0;
  options.tokenizer = call.model->tokenizer();
  return options;
}

}  // namespace espalier::server
