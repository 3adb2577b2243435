// sampling.h: how a request's next token is chosen, and when it stops.
//
// Names and meaning are SGLang's. Order of application: repetition, frequency and presence penalties, logit bias; then
// the constraint's mask; temperature; top-k, top-p and min-p, each looking at the unfiltered distribution ("joint").
// Units:   probabilities in 0..1, lengths in tokens.
// Threads: a value.
// Fails:   validate() names the field and says what would be accepted; a validated value cannot fail later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "espalier/types.h"

namespace espalier {

// What validate() accepts at most.
struct SamplingLimits {
  static constexpr int n = 64;
  static constexpr int stop_strings = 16;
  static constexpr std::size_t stop_string_bytes = 1024;
  static constexpr int stop_regexes = 16;
  static constexpr std::size_t stop_regex_bytes = 256;
  static constexpr int stop_token_ids = 4096;
  static constexpr int logit_biases = 4096;
  static constexpr double temperature = 100;
  static constexpr double greedy_below = 1e-6;  // a temperature under this means the likeliest token
};

// The sampling and stopping parameters of a request.
struct SamplingParams {
  double temperature = 1;         // 0..100; under 1e-6: greedy
  double top_p = 1;               // (0, 1]: the smallest set of likeliest tokens with at least this probability
  int top_k = -1;                 // >= 1: only the k likeliest; -1 or 0: all
  double min_p = 0;               // [0, 1]: only tokens at least this likely relative to the likeliest
  double repetition_penalty = 1;  // (0, 10]: divides positive logits of tokens in prompt or output, multiplies others
  double frequency_penalty = 0;   // -2..2: subtracted for each occurrence in the output
  double presence_penalty = 0;    // -2..2: subtracted once for a token in the output
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the logit; -100..100, each token once
  std::optional<std::uint64_t> seed;                  // none: drawn when the request is made

  std::optional<int> max_new_tokens;    // none: to the context limit (resolved by the engine); 0: only read the prompt
  int min_new_tokens = 0;               // end and stop tokens are not chosen before
  std::vector<std::string> stop;        // matched on the text
  std::vector<std::string> stop_regex;  // likewise
  std::vector<TokenId> stop_token_ids;  // ids the model does not have never match
  bool no_stop_trim = false;            // keep the stop string or token in the output
  bool ignore_eos = false;

  int n = 1;                        // continuations of one prompt
  bool skip_special_tokens = true;  // in the text
  bool spaces_between_special_tokens = true;

  bool greedy() const { return temperature < SamplingLimits::greedy_below || top_k == 1; }
  // Whether pick() looks at the tokens so far: repetition at prompt and output, the others at the output only.
  bool penalises() const { return repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0; }

  // Whether top-k, top-p or min-p can leave out a token of so many.
  bool filters(std::size_t vocabulary) const {
    return (top_k > 0 && static_cast<std::size_t>(top_k) < vocabulary) || top_p < 1 || min_p > 0;
  }

  // Requires: vocabulary >= 1, the number of logits in a row.
  Result<> validate(int vocabulary) const;
};

}  // namespace espalier
