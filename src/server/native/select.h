// select.h: /generate with choices and a choices_method: the likeliest of some continuations.
//
// All choices are scored at once, by the log-probabilities of their tokens behind the prompt; the prompt is computed
// once. A choice is encoded together with a prompt that is text, so its first token may take in the prompt's last one
// (token healing), which then counts with it; behind a prompt of ids it is encoded alone.
//   token_length_normalized              the largest mean
//   greedy_token_selection               position by position those with the largest value, until one is left; a choice
//                                        that is over counts with its mean
//   unconditional_likelihood_normalized  the largest mean of what each token gains by standing behind the prompt; the
//                                        first token alone counts as 0
// Equal ones: the first.
// Threads: parse: any; the reply: the courier's. Fails: bad_request naming the field.
// Source:  reference/sglang-language.md section 3.
#pragma once

#include "server/handler.h"
#include "server/native/generate_body.h"

namespace espalier::server {

enum class ChoicesMethod { token_length_normalized, greedy_token_selection, unconditional_likelihood_normalized };

struct ScoredChoice {
  std::vector<double> logprobs;       // of its tokens
  std::vector<double> unconditional;  // the same without the prompt; empty where they are not wanted
};

struct Decision {
  std::size_t choice = 0;
  std::vector<double> means;                // of logprobs
  std::vector<double> unconditional_means;  // of what is gained
  std::vector<std::vector<double>> matrix;  // of greedy_token_selection
};

// Requires: at least one choice.
Decision decide(ChoicesMethod method, const std::vector<ScoredChoice>& choices);

// Of a body whose only prompt has a choices_method.
Result<Generation> select_choice(Call& call, const GenerateBody& body);

}  // namespace espalier::server
