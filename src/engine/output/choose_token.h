// choose_token.h: a row of logits to the token that a sequence says with it.
//
// The one place where a request's parameters, noise and forbidden tokens meet a row, so that a draft model chooses by
// the very rule and noise that its guesses are verified with.
// Threads: any; keeps scratch memory a thread. Fails: as sampling/sampler.h; the row is unchanged on return.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/step/sequence.h"
#include "model/row_draw.h"
#include "sampling/sampler.h"

namespace espalier {

// index, below: of the token in the sequence's output; behind generated() when tokens are drafted.

// The uniform number of the sequence's noise at the output number `index`.
double uniform_at(const Sequence& sequence, int index);

// The token number `index` as a model draws it from its row `logit_row`, without its mask. It refers to the sequence's request.
RowDraw draw_at(const Sequence& sequence, int index, int logit_row);

// Whether a model that draws can draw such tokens: nothing changes logits but their mask.
bool can_be_drawn(const SamplingParams& params);

// Whether some tokens may not come at the output number `index`, whatever the mask.
bool forbids_tokens(const Sequence& sequence, int index, std::span<const TokenId> end_tokens);

// Whether, masks apart, only the model's logits and the noise decide: nothing is forbidden, penalised or filtered.
bool chooses_plainly(const Sequence& sequence, int index, std::span<const TokenId> end_tokens, int vocabulary);

// Which tokens may come at the output number `index`: what `allowed` leaves (null: all), without those that are forbidden there;
// empty: all. words: room for it where the constraint's own words are not the answer.
std::span<const std::uint32_t> mask_at(const Sequence& sequence, int index, std::span<const TokenId> end_tokens,
                                       const grammar::Allowed* allowed, bool may_end, int vocabulary,
                                       std::vector<std::uint32_t>& words);

// allowed: by the sequence's constraint; null: all. may_end: end and stop tokens are among those that may come.
Result<Pick> choose_token(std::span<float> logits, const Sequence& sequence, int index,
                          std::span<const TokenId> end_tokens, const grammar::Allowed* allowed = nullptr,
                          bool may_end = true);

}  // namespace espalier
