// differential_attention.h: attention by the difference of two softmaxes, of which heads of the second half are the
// subtrahends; each pair of heads has a value of two KV heads' width and is normed by itself (DiffLlama).
//
// Roles: attn_q, attn_k, attn_v, attn_output; lambda_q1, lambda_k1, lambda_q2, lambda_k2. Keeps: keys of every KV head
// and the double value that its softmax weighs. Source: Differential Transformer (arXiv 2410.05258).
#pragma once

#include "model/program/rope_spec.h"
#include "model/spec.h"

namespace espalier {

// The block, with its heads.
struct DifferentialAttention {
  int heads = 0, kv_heads = 0, head_dim = 0;  // both numbers of heads even
  bool bias = false;
  RopeSpec rope;
  float norm_eps = 1e-5f;

  Rows operator()(Builder& builder, Rows x) const;

 private:
  Rows double_values(Builder& b, Rows value) const;
};

}  // namespace espalier
