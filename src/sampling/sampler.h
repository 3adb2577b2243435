// sampler.h: one row of logits to one token.
//
// The pick is the inverse of the cumulative distribution, over the kept tokens in ascending id, at one uniform number
// of the request's own noise: a pure function of (row, params, counts, mask, uniform). Order of work and of filters:
// espalier/sampling.h.
// Threads: one Sampler a thread (it keeps scratch); which one picks does not matter to the result.
// Fails:   pick() with code "logits_not_finite" when an allowed logit is NaN or +infinity, "no_token_allowed" when none
//          is above -infinity, "bad_sampling_input" when a requirement below is broken. Only this request ends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "espalier/error.h"
#include "espalier/sampling.h"
#include "espalier/types.h"
#include "sampling/filtered_draw.h"
#include "sampling/penalties.h"
#include "sampling/pick.h"
#include "sampling/row_scan.h"

namespace espalier {

// A row and all that bears on the choice of its token.
struct PickInput {
  std::span<float> logits;                   // [vocabulary]; changed in places while picking, restored on return
  const SamplingParams* params = nullptr;    // validated; Requires: not null
  const TokenCounts* counts = nullptr;       // Requires: not null when params->penalises()
  std::span<const std::uint32_t> mask = {};  // bit i % 32 of word i / 32: token i is allowed; empty = all
  std::span<const TokenId> forbidden = {};   // not to be chosen this time (end tokens before min_new_tokens)
  double uniform = 0;                        // Noise(seed, choice).uniform(position), in [0, 1)
};

// Picks tokens from rows; holds scratch memory between calls.
class Sampler {
 public:
  Result<Pick> pick(const PickInput& input);

  // The distribution pick() draws from, for tests and tools; weights under 2^-126 of the largest are 0.  [vocabulary]
  Result<std::vector<double>> distribution(const PickInput& input);

 private:
  Result<> prepare(const PickInput& input, bool filtered);
  void filter(const PickInput& input);
  Pick likeliest(const PickInput& input) const;
  Pick draw_from_row(const PickInput& input);
  std::span<float> allowed_block(const PickInput& input, std::size_t block);

  sampling::RowScan scan_;
  sampling::FilteredDraw filtered_;
  PenalisedRow::Saved saved_;
  std::vector<float> scratch_;
};

}  // namespace espalier
