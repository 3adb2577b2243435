// filtered_draw.h: a token by top-k, top-p and min-p: of a scanned row, only the few logits are looked at that they can keep.
//
// Order: at_least(); whoever has the row fills found() with the logits from there on; keep(); draw().
// Bits:    the order of every sum is that of the found tokens, which is by ascending id.
// Threads: one object a thread (it keeps scratch). Fails: never.
#pragma once

#include <cstddef>
#include <vector>

#include "espalier/sampling.h"
#include "sampling/pick.h"
#include "sampling/selection.h"

namespace espalier::sampling {

// What a scan must hold for at_least().
ScanFor scan_for_filters(const SamplingParams& params);

// Cuts a row down to what filters keep, and draws from that.
class FilteredDraw {
 public:
  // How small a kept logit can be. Requires: check_scan() succeeded; vocabulary: the row's logits.
  float at_least(const SamplingParams& params, const RowScan& scan, std::size_t vocabulary);
  // For all allowed tokens from there on, in ascending id; afterwards exactly the kept ones, weighed.
  Candidates& found() { return found_; }
  void keep(const SamplingParams& params, const RowScan& scan, std::size_t vocabulary);
  double sum();  // of the kept weights; before draw()
  Pick draw(double uniform);

 private:
  static constexpr std::size_t group_size = 64;

  Candidates found_;
  Selection selection_;
  std::vector<double> group_sum_;  // of the kept weights, 64 a group
  std::vector<float> scratch_;
};

}  // namespace espalier::sampling
