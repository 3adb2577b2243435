// pick.h: a token that was picked.
#pragma once

#include "espalier/types.h"

namespace espalier {

// The token, and its probability in the distribution that it was drawn from.
struct Pick {
  TokenId token = -1;
  // Of the token in the distribution it was drawn from, after penalties, temperature and filters; 1 when greedy.
  // The log-probability to report is that of the model's own distribution: sampling/logprobs.h.
  double probability = 1;
};

}  // namespace espalier
