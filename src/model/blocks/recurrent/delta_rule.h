// delta_rule.h: linear attention whose state forgets by a gate and is corrected by the delta rule.
//
// Queries, keys and values pass a short convolution; queries and keys are normed; each value head keeps a matrix
// [key_dim][value_dim] that decays by one number (gated delta nets) or by one for each of its rows (Kimi delta
// attention); what comes out is normed and gated.
// Roles: attn_qkv (rows of queries, keys, values), attn_gate, ssm_beta, ssm_alpha; or (by_key_head) ssm_in and ssm_ba,
// which have these rows key head by key head; or (in_one, where the file has it) ssm_in_all; or (apart) attn_q, attn_k, attn_v, ssm_beta, ssm_f_a for the decay and
// ssm_g_a for the gate, followed by ssm_f_b and ssm_g_b where these have a rank; ssm_conv1d (apart: ssm_conv1d_q and so
// on, where the file has no other), ssm_dt, ssm_a, ssm_norm, ssm_out.
// Keeps: of each sequence the states and the last inputs of the convolution.
// Source: Gated Delta Networks (arXiv 2412.06464); Kimi Linear (arXiv 2510.26692).
#pragma once

#include <string_view>
#include <vector>

#include "model/spec.h"
#include "model/weights/needs.h"

namespace espalier {

// The block, and how checkpoints store its matrices.
struct DeltaRule {
  enum class Stored { together, by_key_head, apart, in_one };
  Stored stored = Stored::together;
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int taps = 4;
  ActivationKind activation = ActivationKind::silu;  // behind the convolution
  bool tiled_in_gguf = false;  // GGUF files have the value heads of a key head key_heads apart, not side by side

  bool by_channel = false;  // a decay for each row of the state
  DecayForm decay = DecayForm::softplus;
  float decay_bound = 0.0f;
  float beta_scale = 1.0f;
  int decay_rank = 0, gate_rank = 0;  // 0: full

  GatedNormForm gate = GatedNormForm::norm_then_silu;
  float norm_eps = 1e-6f;

  std::string_view query = "attn_q", key = "attn_k", value = "attn_v", output = "ssm_out";  // roles

  int keys() const { return key_heads * key_dim; }
  int values() const { return value_heads * value_dim; }

  Rows operator()(Builder& builder, Rows x) const;

 private:
  struct Projected {
    Rows qkv, gate, beta, decay;
  };
  int decays() const { return by_channel ? value_heads * key_dim : value_heads; }
  Projected project(Builder& b, Rows x) const;
  std::vector<MatrixPart> parts(Builder& b, int inputs) const;
  std::vector<MatrixPart> qkvz(Builder& b, int inputs) const;
  void convolve(Builder& b, Rows qkv) const;
  void make_decay(Builder& b, Rows rows) const;
  Rows recur(Builder& b, const Projected& p) const;
};

}  // namespace espalier
