// rwkv7.h: the two mixers of RWKV-7. Of tokens: a matrix state whose row fades by a decay of each channel, from which
// what it holds for one key is taken away and given back to another, before the token's own value is added. Of
// channels: a plain squared relu over the row blended with the row before.
//
// S = decay * S - (k' * rate) (S^T k')^T + k v^T, k' of length 1; out = S^T r, normed by heads, + (r * bonus . k) v,
// gated. Roles: time_mix_lerp_fused (shares of the row before: r, w, k, v, a, and g where there is a gate),
// time_mix_receptance, time_mix_key, time_mix_value, time_mix_output; time_mix_w0, w1, w2 (decay), a0, a1, a2 (rate),
// v0, v1, v2 (share of the first layer's values), g1, g2 (gate); time_mix_k_k, time_mix_k_a, time_mix_r_k, time_mix_ln;
// channel_mix_lerp_k, channel_mix_key, channel_mix_value. Keeps: of each sequence the states and the rows before.
// Source: RWKV-7 "Goose" (arXiv 2503.14456); llama.cpp for names and layouts.
#pragma once

#include "model/spec.h"

namespace espalier {

// The mixer of tokens, with its sizes.
struct Rwkv7TimeMix {
  int head_dim = 64;
  int decay_rank = 0, rate_rank = 0, value_rank = 0, gate_rank = 0;

  Rows operator()(Builder& builder, Rows x) const;

 private:
  struct Mixed {
    Rows r, w, k, v, a, g;
  };
  Mixed blend(Builder& b, Rows x) const;
  Rows value(Builder& b, Rows mixed) const;
  Rows recur(Builder& b, const Mixed& rows, Rows rate) const;
};

// The mixer of channels, with its width.
struct Rwkv7ChannelMix {
  int inner = 0;

  Rows operator()(Builder& builder, Rows x) const;
};

}  // namespace espalier
