// types.h: the small words every module shares.
#pragma once

#include <cstdint>

namespace espalier {

using TokenId = std::int32_t;  // index into the model's vocabulary
using Slot = std::int32_t;     // one token's place in the token pool

// A token with its log-probability.
struct TokenLogprob {
  TokenId token = -1;
  double logprob = 0;  // natural logarithm
};

}  // namespace espalier
