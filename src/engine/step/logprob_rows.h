// logprob_rows.h: how many rows of one step may keep their logits for prompt log-probabilities.
#pragma once

#include <algorithm>

#include "engine/step/sequence.h"

namespace espalier {

// Counts down as prompts whose log-probabilities are wanted get their chunks.
class LogprobRows {
 public:
  int cap(const Sequence& sequence, int count) {  // tokens of its chunk
    if (!sequence.wants_prompt_logprobs()) return count;
    count = std::min(count, left_);
    left_ -= count;
    return count;
  }

 private:
  int left_ = 128;
};

}  // namespace espalier
