// RWKV-6: no attention, a matrix state that fades. QRWKV6: this mixer of tokens between Qwen 2's RMS norms and MLPs.
// Source: Eagle and Finch (arXiv 2404.05892); llama.cpp for names.
#include "model/blocks/recurrent/rwkv6.h"
#include "model/arch/families.h"
#include "model/arch/recurrent/rwkv_parts.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

Rwkv6TimeMix rwkv6_mixer(const Fields& f) {
  Rwkv6TimeMix mix;
  mix.head_dim = rwkv_head_dim(f);
  mix.mix_rank = f.count({"", "time_mix_extra_dim"}, ConfigLimits::inner);
  mix.decay_rank = f.count({"", "time_decay_extra_dim"}, ConfigLimits::inner);
  const int heads = std::max(1, hidden_size(f) / mix.head_dim);
  mix.kv_heads = f.count_or({"", "attention.head_count_kv"}, 0, heads);
  if (mix.kv_heads > 0 && heads % mix.kv_heads != 0)
    f.refuse({"", "attention.head_count_kv"}, "attention.head_count_kv must divide the number of heads");
  return mix;
}

}  // namespace

// Weights that add to the row are stored halved after every so many layers; so is the row itself.
ModelSpec rwkv6(const Fields& f) {
  const Rwkv6TimeMix mix = rwkv6_mixer(f);
  const Rwkv6ChannelMix channels{f.count({"", "feed_forward_length"}, ConfigLimits::inner)};
  const int every = f.count_or({"", "rescale_every_n_layers"}, 0, ConfigLimits::layers);
  ModelSpec spec = decoder(f, [&](int layer) {
    Layer plain{{{mix, "attn_norm"}, {channels, "attn_norm_2"}}};
    if (every == 0 || (layer + 1) % every != 0) return plain;
    Layer halved;
    halved.body = [plain](Builder& b, Rows x) {
      x = b.run(plain, x);
      b.scale(x, 0.5f);
      return x;
    };
    return halved;
  });
  rwkv_norms(spec);
  return spec;
}

ModelSpec rwkv6qwen2(const Fields& f) {
  const Rwkv6TimeMix mix = rwkv6_mixer(f);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(mix, gated_mlp(f)); });
  spec.longest = 1 << 20;
  return spec;
}

}  // namespace espalier
