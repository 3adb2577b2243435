// plain_draw.h: a token from a scanned row without filters: the inverse of the cumulative distribution, over the
// allowed tokens in ascending id.
//
// The sums of the row's blocks tell in which block the token lies; only that block's logits are looked at again.
// Threads: pure. Fails: check_scan() with not_finite() or none_allowed() (sampler.h).
#pragma once

#include <cstddef>
#include <span>

#include "espalier/error.h"
#include "sampling/pick.h"
#include "sampling/row_scan.h"

namespace espalier::sampling {

// The errors of rows from which no token can be picked: "logits_not_finite", "no_token_allowed".
Error not_finite();
Error none_allowed();

// Whether there is a token to pick: afterwards scan.max is a finite allowed logit.
Result<> check_scan(const RowScan& scan);

// Finds the block in which a uniform number falls, then the token within it.
class PlainDraw {
 public:
  // Requires: sums were scanned, check_scan() succeeded, uniform in [0, 1).
  PlainDraw(const RowScan& scan, double uniform);

  std::size_t block() const { return block_; }
  // logits: those of block(), -infinity where not allowed; they become weights.
  Pick from(std::span<float> logits) const;

 private:
  const RowScan& scan_;
  double target_, before_ = 0, scale_ = 0;  // the sum to reach, that of the blocks before, what this block's counts
  std::size_t block_ = 0;
};

}  // namespace espalier::sampling
