#include "server/prompt/sampling_defaults.h"

#include <algorithm>

namespace espalier::server {

SamplingParams chat_defaults(const ModelInfo& model, const ServerOptions& options) {
  SamplingParams defaults;
  if (options.sampling_defaults != "model") return defaults;
  defaults.temperature = model.temperature.value_or(defaults.temperature);
  defaults.top_p = model.top_p.value_or(defaults.top_p);
  defaults.top_k = model.top_k.value_or(defaults.top_k);
  defaults.min_p = model.min_p.value_or(defaults.min_p);
  defaults.repetition_penalty = model.repetition_penalty.value_or(defaults.repetition_penalty);
  // A file may hold anything; what it gets wrong is not the client's fault.
  return defaults.validate(std::max(model.limits.vocabulary, 1)).ok() ? defaults : SamplingParams{};
}

}  // namespace espalier::server
