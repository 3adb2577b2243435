// selection.h: the likeliest tokens of a row without sorting it.
//
// Order of tokens everywhere: larger logit first, equal logits by lower id. top-k, top-p and min-p each keep a prefix
// of that order, so together they keep the shortest of the three.
//
// Threads: one object a thread (it keeps scratch).
// Fails:   never.
// Cost:    O(row) for gather, O(candidates) for a cut; no sort beyond a handful of tokens.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "espalier/types.h"
#include "sampling/row_scan.h"

namespace espalier::sampling {

// A token with its logit and, once it is weighed, its weight.
struct Ranked {
  float logit = 0;
  TokenId token = 0;
  float weight = 0;
  bool before(const Ranked& other) const { return logit != other.logit ? logit > other.logit : token < other.token; }
};

// The last token of a prefix of the order.
struct Cut {
  float logit = -std::numeric_limits<float>::infinity();
  TokenId token = std::numeric_limits<TokenId>::max();
  // Without branches: which tokens are kept is no pattern a processor could predict.
  bool keeps(float l, TokenId t) const { return (int{l > logit} | (int{l == logit} & int{t <= token})) != 0; }
};

// Tokens that may be kept, in ascending id; only the first `count` entries mean anything.
struct Candidates {
  std::size_t count = 0;
  std::vector<float> logits;
  std::vector<TokenId> tokens;
  std::vector<float> weights;  // exp((logit - max) * sharpness), once weighed

  void make_room(std::size_t row);
};

// A value that at least `count` logits of the scanned row reach; the lowest float when the scan cannot tell.
// Found from the strips' maxima alone; for count well below their number only little more than `count` logits reach it.
float reached_by(const RowScan& scan, std::size_t count, std::vector<float>& scratch);

// All allowed tokens with logit >= at_least.
void gather(std::span<const float> logits, AllowedMask mask, const RowScan& scan, float at_least, Candidates& out);

// Cuts the order of candidates at a count or a mass of weight without sorting all of it.
class Selection {
 public:
  // The end of the shortest prefix of the candidates' order with `count` tokens or a weight of `mass`; everything when
  // neither is reached. Requires: the candidates are weighed, max is the largest logit.
  Cut cut(const Candidates& candidates, float max, std::size_t count, double mass);

 private:
  struct Bin {
    std::size_t count = 0;
    double mass = 0;
  };
  static constexpr int bins = 1024;

  Cut cut_small(std::size_t count, double mass);

  std::vector<Bin> bins_;
  std::vector<std::int32_t> bin_of_;  // of each candidate
  std::vector<Ranked> crossing_;
};

}  // namespace espalier::sampling
