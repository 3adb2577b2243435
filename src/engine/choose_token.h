// choose_token.h: a row of logits to the token that a sequence says with it.
//
// The one place where a request's parameters, noise and forbidden tokens meet a row, so that a draft model chooses by
// the very rule and noise that its guesses are verified with. Threads: any; keeps scratch memory a thread. Fails: as
// sampling/sampler.h; the row is unchanged on return.
#pragma once

#include <span>

#include "engine/sequence.h"
#include "sampling/sampler.h"

namespace espalier {

// index: of the token in the sequence's output; behind generated() when tokens are drafted. allowed: by the sequence's
// constraint; null: all.
Result<Pick> choose_token(std::span<float> logits, const Sequence& sequence, int index,
                          std::span<const TokenId> end_tokens, const grammar::Allowed* allowed = nullptr);

}  // namespace espalier
