#include "server/llamacpp/settings.h"

#include <limits>

namespace espalier::server {

void write_settings(JsonWriter& json, const SamplingParams& sampling, const LlamaCppSettings& settings) {
  const std::int64_t length = sampling.max_new_tokens ? *sampling.max_new_tokens : -1;
  json.open('{');
  json.field("seed", sampling.seed.value_or(std::numeric_limits<std::uint32_t>::max()));
  json.field("temperature", sampling.temperature).field("dynatemp_range", 0.0).field("dynatemp_exponent", 1.0);
  json.field("top_k", sampling.top_k).field("top_p", sampling.top_p).field("min_p", sampling.min_p);
  json.field("top_n_sigma", -1.0).field("xtc_probability", 0.0).field("typical_p", 1.0).field("repeat_last_n", -1);
  json.field("repeat_penalty", sampling.repetition_penalty).field("presence_penalty", sampling.presence_penalty);
  json.field("frequency_penalty", sampling.frequency_penalty).field("dry_multiplier", 0.0).field("mirostat", 0);
  json.key("stop").open('[');
  for (const std::string& stop : sampling.stop) json.value(stop);
  json.close(']').field("max_tokens", length).field("n_predict", length).field("n_keep", 0).field("n_discard", 0);
  json.field("ignore_eos", sampling.ignore_eos).field("stream", settings.stream).key("logit_bias").open('[');
  for (const auto& [token, bias] : sampling.logit_bias)
    json.open('{').field("token", token).field("bias", bias).close('}');
  json.close(']').field("n_probs", settings.probabilities).field("min_keep", 0).key("samplers").open('[');
  for (const char* name : {"penalties", "temperature", "top_k", "top_p", "min_p"}) json.value(name);
  json.close(']').field("timings_per_token", settings.timings_per_token).field("post_sampling_probs", false);
  json.key("lora").open('[').close(']').close('}');
}

void write_timings(JsonWriter& json, const LlamaCppTimings& t) {
  const auto write = [&](const char* name, int tokens, double ms) {
    const std::string stem(name);
    json.field(stem + "_n", tokens).field(stem + "_ms", ms);
    json.field(stem + "_per_token_ms", tokens > 0 ? ms / tokens : 0.0);
    json.field(stem + "_per_second", ms > 0 ? tokens * 1000.0 / ms : 0.0);
  };
  json.key("timings").open('{').field("cache_n", t.cached);
  write("prompt", t.prompt, t.prompt_ms);
  write("predicted", t.predicted, t.predicted_ms);
  json.close('}');
}

}  // namespace espalier::server
