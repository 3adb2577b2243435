// gated_sum.h: a gated sum that fades, channel by channel, behind a short convolution (RG-LRU of Griffin).
//
// One product gives the gate, one the input, which is convolved. Of it matrices of each head's own columns make how
// much of it enters and how fast the sum fades: decay = exp(-8 softplus(rate) sigmoid(.)), and sqrt(1 - decay^2) of the
// gated input enters, at position 0 all of it. Roles: sum_gate, sum_in, sum_conv1d, sum_input_gate, sum_decay_gate,
// sum_rate, sum_out. Keeps: of each sequence the sums and the last inputs of the convolution. Source: Griffin (arXiv
// 2402.19427).
#pragma once

#include "model/spec.h"

namespace espalier {

// The block, with its sizes.
struct GatedSum {
  int width = 0, heads = 1;
  int taps = 4;
  ActivationKind activation = ActivationKind::gelu_tanh;  // of the gate

  Rows operator()(Builder& builder, Rows x) const;

 private:
  Rows by_heads(Builder& b, Rows in, std::string_view role) const;
  VectorId rates(Builder& b) const;
};

}  // namespace espalier
