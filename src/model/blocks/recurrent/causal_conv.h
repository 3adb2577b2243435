// causal_conv.h: a short convolution over the tokens before, each channel by itself; part of recurrent layers.
//
// Tensors: weights [channels, taps] (a dimension of 1 between), of one role or of several side by side; a bias
// [channels], in GGUF files where there is one. Keeps: the last taps - 1 rows of each sequence.
// Source: Mamba (arXiv 2312.00752).
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "model/spec.h"

namespace espalier {

// The convolution, as other blocks have it inside.
struct CausalConv {
  std::vector<std::pair<std::string_view, int>> parts = {};  // roles and their channels
  int taps = 4;
  bool bias = false;
  ActivationKind activation = ActivationKind::silu;
  int apart = 1;  // rows from one tap to the next

  // In the place of the rows.
  void operator()(Builder& builder, Rows rows) const;
};

// The rows of `back` tokens before (of at most taps - 1), zeros before the first. Keeps them.
Rows row_before(Builder& builder, Rows rows, int back = 1, int taps = 2);

}  // namespace espalier
