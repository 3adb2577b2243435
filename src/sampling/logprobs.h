// logprobs.h: log-probabilities of a row, as the model gave it.
//
// Convention: the natural logarithm of softmax(logits) before penalties, bias, mask, temperature and filters, as the
// OpenAI-compatible servers of today report it (vLLM's "raw" mode). It does not depend on the request's parameters, and
// is the same for a prompt token, a sampled one and a forced one.
// Bits:    a pure function of the row (row_scan.h).
// Threads: one object a thread; it refers to the row until the next read().
// Fails:   read() with code "logits_not_finite" when a logit is NaN or +infinity or all are -infinity.
//          A token of logit -infinity has log-probability -infinity; so has an id outside the row.
#pragma once

#include <span>
#include <vector>

#include "espalier/error.h"
#include "espalier/types.h"
#include "sampling/row_scan.h"
#include "sampling/selection.h"

namespace espalier {

// The log-probabilities of one row, read once and then asked for by token or by rank.
class Logprobs {
 public:
  Result<> read(std::span<const float> logits);

  double of(TokenId token) const;  // Requires: read() succeeded; also for those below
  std::vector<TokenLogprob> of(std::span<const TokenId> tokens) const;
  // The `count` likeliest (all when there are fewer), most likely first, equal ones by lower id.
  std::vector<TokenLogprob> top(int count);

 private:
  std::span<const float> logits_;
  double log_total_ = 0;  // log of the sum of exp(logit - max)
  sampling::RowScan scan_;
  sampling::Candidates candidates_;
  std::vector<float> scratch_;
};

}  // namespace espalier
