// ranked_mamba2.h: Mamba-2's recurrence with the small matrices of Mamba: keys, queries and the ranks of the time steps
// come from the convolved input, each normed (PLaMo 2).
//
// One product gives gate and input of each head by turns; keys (B) and queries (C) serve all heads.
// Roles: ssm_in, ssm_conv1d, ssm_x (keys, queries, ranks), ssm_b_norm, ssm_c_norm, ssm_dt_norm, ssm_dt and its bias
// (HF: ssm_dt_bias), ssm_a, ssm_d, ssm_out. Keeps: of each sequence the states and the last inputs of the convolution.
// Source: PLaMo 2 (arXiv 2509.04897); Mamba-2 (arXiv 2405.21060).
#pragma once

#include "model/spec.h"

namespace espalier {

// The block, with its sizes.
struct RankedMamba2 {
  int heads = 0, head_dim = 0, state = 0, rank = 0;
  int taps = 4;
  float norm_eps = 1e-6f;

  int inner() const { return heads * head_dim; }
  Rows operator()(Builder& builder, Rows x) const;

 private:
  void norm(Builder& b, Rows rows, std::string_view role) const;
  Rows recur(Builder& b, Rows in) const;
};

}  // namespace espalier
