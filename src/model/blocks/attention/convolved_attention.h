// convolved_attention.h: attention whose queries and keys pass two short convolutions, the second one over all channels
// of a head, and half of whose values are the token's before (compressed convolutional attention of ZAYA).
//
// query = conv(q) + (q + k of its KV head) / 2, key = conv(k) + the mean of that over its query heads; both are normed
// to a length of sqrt(head_dim), keys times a number of their head. Roles: attn_q, attn_k, attn_v (of the token),
// attn_v_before (what the next one takes), attn_conv_channels (depthwise), attn_conv_heads, attn_temperature,
// attn_output. Keeps: keys and values; of each sequence the last inputs of both convolutions and the value half.
// Source: CCA (arXiv 2510.04476); transformers' ZayaAttention.
#pragma once

#include "model/blocks/attention/attention.h"

namespace espalier {

// The block: heads, rotation, window and biases as `like` has them.
struct ConvolvedAttention {
  Attention like;
  int channel_taps = 2, head_taps = 2;

  Rows operator()(Builder& builder, Rows x) const;

 private:
  Rows convolve(Builder& b, Rows both) const;
  Rows by_heads(Builder& b, Rows taps) const;
  Rows mean_residual(Builder& b, Rows query, Rows key) const;
  Rows values(Builder& b, Rows x) const;
  void prepare(Builder& b, Rows rows, int count) const;
};

}  // namespace espalier
