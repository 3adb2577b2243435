// rwkv6.h: the two mixers of RWKV-6. Of tokens: a matrix state whose rows fade by a decay of each channel, read before
// the token's own value is added, which counts by a bonus instead; how much of the row before takes part comes from the
// row itself. Of channels: a squared relu, gated. In QRWKV6 (no bonus in the file) the state is read behind the
// addition.
//
// Roles: time_mix_lerp_x, time_mix_lerp_fused (w, k, v, r, g; or one by one), time_mix_w1, time_mix_w2; time_mix_decay,
// time_mix_decay_w1, _w2; time_mix_first (bonus); time_mix_key, _value, _receptance, _gate, _ln, _output;
// channel_mix_lerp_k, _lerp_r, channel_mix_key, _value, _receptance. Keeps: of each sequence the states, the rows
// before, and keys, values and decays of the row before. Source: Eagle and Finch (arXiv 2404.05892); llama.cpp for
// names and layouts.
#pragma once

#include "model/spec.h"

namespace espalier {

// The mixer of tokens, with its sizes.
struct Rwkv6TimeMix {
  int head_dim = 64, kv_heads = 0;  // kv_heads 0: as many as heads
  int mix_rank = 0, decay_rank = 0;

  Rows operator()(Builder& builder, Rows x) const;

 private:
  struct Mixed {
    Rows w, k, v, r, g;
  };
  Mixed blend(Builder& b, Rows x) const;
  Rows shares(Builder& b, Rows x, Rows difference) const;
  Rows decay(Builder& b, Rows mixed) const;
  Rows keyed(Builder& b, Rows mixed, std::string_view role) const;
  Rows read_before(Builder& b, Rows r, Rows k, Rows v, Rows decay) const;
  Rows read_behind(Builder& b, Rows r, Rows k, Rows v, Rows decay) const;
};

// The mixer of channels, with its width.
struct Rwkv6ChannelMix {
  int inner = 0;

  Rows operator()(Builder& builder, Rows x) const;
};

}  // namespace espalier
