// mamba1.h: the selective state space mixer of Mamba: every channel keeps a small state of its own.
//
// One product gives input and gate; the input passes a short convolution; of it a second product makes the ranks of the
// time steps, and the keys (B) and queries (C) that all channels share. Roles: ssm_in, ssm_conv1d, ssm_x, ssm_dt (a
// matrix with a bias), ssm_a, ssm_d, ssm_out; ssm_dt_norm, ssm_b_norm, ssm_c_norm; with heads ssm_x_heads,
// ssm_dt_heads, ssm_dt_heads_bias in place of ssm_x and ssm_dt. Keeps: of each sequence the states [state][inner] and
// the last inputs of the convolution. Source: Mamba (arXiv 2312.00752); Jamba (arXiv 2403.19887) for the norms.
#pragma once

#include "model/spec.h"
#include "model/weights/needs.h"

namespace espalier {

// The block, with its sizes.
struct Mamba1 {
  int inner = 0, state = 0, rank = 0;
  int taps = 4;
  int heads = 0;          // of equal width, each with matrices of its own for steps, keys and queries; 0: one for all
  bool in_turns = false;  // stored rows of input and gate take turns
  bool conv_bias = true, bias = false;
  ActivationKind activation = ActivationKind::silu;  // behind the convolution
  enum class Norms { none, plain, with_gain };       // of ranks, keys and queries
  Norms norms = Norms::none;
  float norm_eps = 1e-6f;

  Rows operator()(Builder& builder, Rows x) const;

 private:
  void norm(Builder& b, Rows rows, std::string_view role) const;
  Rows project(Builder& b, Rows x) const;
  MatrixPart of_head(Builder& b, const std::string& role, int outputs, int inputs, int head) const;
  void scan(Builder& b, Rows in, Rows out, int head) const;
};

}  // namespace espalier
