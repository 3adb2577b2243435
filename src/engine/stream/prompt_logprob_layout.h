// prompt_logprob_layout.h: how the first positions of a prompt's log-probabilities are reported.
//
// Front ends of different versions read them differently: reference/sglang-language.md section 3, rules a, b, c.
// Threads: a pure function.
#pragma once

#include <optional>

namespace espalier {

struct PromptLogprobsAsked {
  std::optional<int> start;  // logprob_start_len as it was given; below 0: of the output only
  bool only_scores = false;  // no token is generated
  bool texts = false;        // return_text_in_logprobs
  bool whole_distributions = false;
};

struct PromptLogprobLayout {
  int start = -1;           // the first position listed; -1: none
  bool null_first = false;  // the first entry has no value, though its token may have one
};

PromptLogprobLayout prompt_logprob_layout(const PromptLogprobsAsked& asked);
// LogprobFields::prompt_start for that. A start outside the prompt stays as it is: Request::make() refuses it.
int first_scored(const PromptLogprobsAsked& asked, int prompt_tokens);

}  // namespace espalier
