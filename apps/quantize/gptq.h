// gptq.h: codes of a matrix chosen one input after the other, each error made up for by the inputs that are still open.
//
// Inputs come in descending order of their mean square (act-order); scales are those of the inputs' own groups, chosen
// before (static groups), so that files need no g_idx.
// Units:   products: the mean of x_i * x_j over a text.
// Threads: one caller; the team computes. Deterministic for any number of threads.
// Fails:   never; where the products are no positive matrix, nothing is made up for.
// Source:  GPTQ (arXiv 2210.17323).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/threads/compute_team.h"

namespace espalier::quantizer {

// What the products of a layer's inputs come to; the same for all matrices that read them.
class Gptq {
 public:
  // products: [width, width]. scales: what each input is multiplied by before the matrix sees it; or empty. At most two
  // matrices of this size are in memory at a time.
  Gptq(std::vector<float> products, std::int64_t width, std::span<const float> scales, ComputeTeam& team);

  // Rounds `count` rows in place: `value(row, input, x)` gives what is stored for x.
  using Rounding = std::function<float(std::int64_t row, std::int64_t input, float x)>;
  void round(std::span<float> rows, std::int64_t count, const Rounding& value) const;

 private:
  std::int64_t width_;
  std::vector<std::int32_t> order_;
  std::vector<float> upper_;  // [width, width] of ordered inputs; empty: not positive
};

}  // namespace espalier::quantizer
