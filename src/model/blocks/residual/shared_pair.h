// shared_pair.h: attention and an MLP below some layers' mixers, whose tensors these layers share (Zamba).
//
// They read the row and its token's embedding side by side; what they give goes through a matrix of the layer's own and
// is added to what the mixer reads, not to the running row. Roles: those of both blocks, shared_attn_norm, ffn_norm,
// shared_out; attn_norm of the mixer. Keeps: what attention does. Source: Zamba (arXiv 2405.16712).
#pragma once

#include "model/blocks/attention/attention.h"
#include "model/blocks/channels/mlp.h"

namespace espalier {

// The pair as one layer has it. The embedding is remembered as "embedding".
struct SharedPair {
  Attention attention;
  Mlp mlp;
  int source = 0;  // the layer whose tensors it has
  int use = 0;     // how many layers before have a pair: the number of its adapters

  // x + mixer(norm(x + out * mlp(norm(attention(norm([x | embedding]))))))
  Layer below(Block mixer) const;
  Rows operator()(Builder& builder, Rows both) const;
};

}  // namespace espalier
