// settings.h: how a request samples, and how long it took, in llama.cpp's words.
// Units:   milliseconds, tokens. Threads: pure functions. Fails: never.
// Source:  llama.cpp's server: generation_settings of /completion, timings, default_generation_settings of /props.
#pragma once

#include "espalier/sampling.h"
#include "server/delivery/json_writer.h"

namespace espalier::server {

// What a completion's settings are beside its sampling.
struct LlamaCppSettings {
  bool stream = false;
  int probabilities = 0;
  bool timings_per_token = false;
};

// An object with the sampling parameters; llama.cpp's own, which are always off here, are told as off.
void write_settings(JsonWriter& json, const SamplingParams& sampling, const LlamaCppSettings& settings);

// Where the time of a completion went.
struct LlamaCppTimings {
  int cached = 0, prompt = 0, predicted = 0;  // tokens: from the cache, computed, made
  double prompt_ms = 0, predicted_ms = 0;
};
void write_timings(JsonWriter& json, const LlamaCppTimings& timings);

}  // namespace espalier::server
