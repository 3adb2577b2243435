// mamba2.h: the state space mixer of Mamba-2: a recurrence whose decay and step come from the token.
//
// One product gives the gate, the input, the keys (B) and queries (C) of each group, and a time step for each head; all
// but gate and steps pass a short convolution. Each head keeps a matrix [state][head_dim]. Groups share keys and
// queries evenly between their heads.
// Roles: ssm_in, ssm_conv1d, ssm_dt, ssm_a, ssm_d, ssm_norm, ssm_out. Keeps: of each sequence the states and the last
// inputs of the convolution. Source: Mamba-2 (arXiv 2405.21060).
#pragma once

#include <limits>
#include <vector>

#include "model/spec.h"

namespace espalier {

// The block, with its sizes.
struct Mamba2 {
  int heads = 0, head_dim = 0, groups = 1, state = 0;
  int taps = 4;
  bool conv_bias = true, in_bias = false, out_bias = false;
  ActivationKind activation = ActivationKind::silu;  // behind the convolution
  float least_step = 0.0f, most_step = std::numeric_limits<float>::infinity();

  bool normed = true;         // else the gate alone counts
  bool norm_in_gguf = false;  // GGUF files tell by having its gain
  GatedNormForm gate = GatedNormForm::silu_then_norm;
  float norm_eps = 1e-5f;

  float in_scale = 1.0f;
  std::vector<float> scales = {};  // of gate, input, keys, queries, steps; empty: none

  int inner() const { return heads * head_dim; }
  int shared() const { return groups * state; }  // keys, or queries

  Rows operator()(Builder& builder, Rows x) const;

 private:
  Rows project(Builder& b, Rows x) const;
  Rows recur(Builder& b, Rows mixed, Rows steps) const;
  void gate_by(Builder& b, Rows out, Rows by) const;
};

}  // namespace espalier
