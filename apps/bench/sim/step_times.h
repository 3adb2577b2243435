// step_times.h: what a step takes, as a sum over what it computes: the simulator's model of a model.
//
// seconds = base + prompt rows x prefill + decoding rows x decode + (row, earlier token) pairs x attention. Pairs of
// decoding rows may cost another time than a prompt's, whose rows read what is before them together. Every
// sequence reads its own context: sharing of prefixes in attention is not modelled.
// Units:   seconds. Threads: values. Fails: parse() with a sentence that names --cost.
#pragma once

#include <optional>
#include <string>

#include "engine/step/step.h"
#include "espalier/error.h"

namespace espalier::bench {

struct StepTimes {
  // SmolLM2-135M-Instruct Q4_1 on 2 threads (AVX-512), from what `bench latency` and the server reached there: a prompt
  // of 512 at 1,819 tokens a second, one sequence decoding at 204, steps of 60 ms with 64 of them at context 256.
  double base = 4.1e-3;                         // of a step
  double prefill = 4.65e-4;                     // of a row of a prompt
  double decode = 8.0e-4;                       // of a row that continues an output; it also needs logits and a pick
  double attention = 3.0e-7;                    // of a row and one token before it
  std::optional<double> decode_attention = {};  // of a decoding row, where that is another

  // "base,prefill,decode,attention" or also ",decode attention"
  static Result<StepTimes> parse(const std::string& text);
  std::string text() const;  // what parse() reads
};

// What a plan computes, in the terms of StepTimes.
struct StepWork {
  double prompt_rows = 0, decode_rows = 0, pairs = 0;
  double decode_pairs = 0;  // of `pairs`, those of decoding rows

  static StepWork of(const StepPlan& plan);
  double attention_seconds(const StepTimes& t) const {
    return t.decode_attention ? (pairs - decode_pairs) * t.attention + decode_pairs * *t.decode_attention
                              : pairs * t.attention;
  }
  double seconds(const StepTimes& t) const {
    return t.base + prompt_rows * t.prefill + decode_rows * t.decode + attention_seconds(t);
  }
};

}  // namespace espalier::bench
