// prompt_logprob_layout.h: how the first positions of a prompt's log-probabilities are reported.
//
// SGLang's front ends of different versions read them differently: those up to 0.3 were written for a list that begins
// with the token behind the start, all values known; later servers begin at the start itself, with an entry without a
// value. One layout serves all of them. Where only scores of a prompt are asked for, (a) no start means position 0,
// (b) only position 0 has no value, (c) with texts a later start means the older layout, which select() reads.
// Threads: a pure function.
// Source:  SGLang 0.3 to 0.5, lang/backend/runtime_endpoint.py and lang/choices.py.
#pragma once

#include <optional>

namespace espalier {

// What a request says about the log-probabilities of its prompt.
struct PromptLogprobsAsked {
  std::optional<int> start;  // logprob_start_len as it was given; below 0: of the output only
  bool only_scores = false;  // no token is generated
  bool texts = false;        // return_text_in_logprobs
  bool whole_distributions = false;
};

// Where the reported list begins, and whether its first entry is without a value.
struct PromptLogprobLayout {
  int start = -1;           // the first position listed; -1: none
  bool null_first = false;  // the first entry has no value, though its token may have one
};

PromptLogprobLayout prompt_logprob_layout(const PromptLogprobsAsked& asked);
// LogprobFields::prompt_start for that. A start outside the prompt stays as it is: Request::make() refuses it.
int first_scored(const PromptLogprobsAsked& asked, int prompt_tokens);

}  // namespace espalier
