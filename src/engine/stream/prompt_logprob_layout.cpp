#include "engine/stream/prompt_logprob_layout.h"

namespace espalier {

PromptLogprobLayout prompt_logprob_layout(const PromptLogprobsAsked& asked) {
  // Who asks only for scores of a prompt, or for whole distributions, means the whole prompt when no start is given.
  const int start = asked.start.value_or(asked.only_scores || asked.whole_distributions ? 0 : -1);
  if (start < 0) return {};
  if (start == 0) return {0, true};  // position 0 has no value at all
  if (!asked.only_scores) return {start, true};
  if (asked.texts) return {start + 1, false};  // the layout that the front ends' select() was written for
  return {start, false};
}

int first_scored(const PromptLogprobsAsked& asked, int prompt_tokens) {
  if (asked.start && (*asked.start < -1 || *asked.start > prompt_tokens)) return *asked.start;
  const int start = prompt_logprob_layout(asked).start;
  return start < prompt_tokens ? start : -1;
}

}  // namespace espalier
