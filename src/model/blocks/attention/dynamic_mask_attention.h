// dynamic_mask_attention.h: attention whose keys have a bias that comes from their values, and that decides which of
// them are read in long texts (Doge).
//
// A KV head adds exp(rate * softplus(.)) to the scores of each of its keys; of more than `kept` positions only those of
// the greatest such bias are read. The bias is one more dimension of the key, which every query has. Roles: those of
// attention, attn_dt (a bias of each KV head, from all values), attn_a (rates). Keeps: keys and values, and the biases
// once more as index keys. Source: Doge; transformers' DogeAttention.
#pragma once

#include "model/blocks/attention/attention.h"

namespace espalier {

// The block: heads, rotation and biases as `like` has them.
struct DynamicMaskAttention {
  Attention like;
  int kept = 0;

  Rows operator()(Builder& builder, Rows x) const;

 private:
  void prepare(Builder& b, Rows rows, int count, std::string_view norm_role) const;
  Rows with(Builder& b, Rows rows, Rows last, int count) const;
  MaskId choose(Builder& b, Rows biases) const;
};

}  // namespace espalier
