// short_conv.h: a gated short convolution in place of attention (LFM2).
//
// One product gives two gates and the input, side by side; the input is gated, convolved and gated again.
// Roles: shortconv.in_proj, shortconv.conv, shortconv.out_proj. Keeps: of each sequence the last gated inputs.
// Source: LFM2 technical report (arXiv 2511.23404).
#pragma once

#include "model/spec.h"

namespace espalier {

// The block, with its taps.
struct ShortConv {
  int taps = 3;
  bool bias = false;

  Rows operator()(Builder& builder, Rows x) const;
};

}  // namespace espalier
