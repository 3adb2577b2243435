// lightning_attention.h: linear attention whose state decays at a fixed rate for each head.
//
// Roles: attn_qkv (query, key and value of each head side by side), attn_gate, attn_sub_norm, lightning_output.
// Keeps: of each sequence one matrix [head_dim][head_dim] a head.
// Source: Lightning Attention-2 (arXiv 2401.04658); MiniMax-01 (arXiv 2501.08313).
#pragma once

#include <vector>

#include "model/spec.h"

namespace espalier {

// The block, with each head's decay.
struct LightningAttention {
  int heads = 0, head_dim = 0;
  ActivationKind activation = ActivationKind::silu;  // of queries, keys and values
  std::vector<float> decays = {};                    // [heads], factors of a token
  float norm_eps = 1e-6f;

  Rows operator()(Builder& builder, Rows x) const;
};

}  // namespace espalier
