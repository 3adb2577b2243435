// RWKV-6 and 7: no attention, a matrix state that fades, in 7 also is corrected. QRWKV6 and ARWKV-7: these mixers of
// tokens between Qwen 2's RMS norms and MLPs. Source: Eagle and Finch (arXiv 2404.05892), RWKV-7 "Goose" (arXiv
// 2503.14456); llama.cpp for names.
#include <fmt/format.h>

#include "model/arch/families.h"
#include "model/blocks/recurrent/rwkv6.h"
#include "model/blocks/recurrent/rwkv7.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

int rwkv_head_dim(const Fields& f) {
  only_in_gguf(f);
  const FieldName size{"head_dim", "wkv.head_size"};
  const int dim = f.count(size, ConfigLimits::state_keys);
  if (hidden_size(f) % dim != 0)
    f.refuse(size, fmt::format("{} is {}, but must divide the width of the model, which is {}", f.path(size), dim,
                               hidden_size(f)));
  return dim;
}

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

Rwkv7TimeMix rwkv7_mixer(const Fields& f) {
  Rwkv7TimeMix mix;
  mix.head_dim = rwkv_head_dim(f);
  mix.decay_rank = f.count({"", "attention.decay_lora_rank"}, ConfigLimits::inner);
  mix.rate_rank = f.count({"", "attention.iclr_lora_rank"}, ConfigLimits::inner);
  mix.value_rank = f.count({"", "attention.value_residual_mix_lora_rank"}, ConfigLimits::inner);
  mix.gate_rank = f.count_or({"", "attention.gate_lora_rank"}, 0, ConfigLimits::inner);
  return mix;
}

void norm_layers(ModelSpec& spec) {
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  spec.embedding_norm = "token_embd_norm";
  spec.longest = 1 << 20;
}

}  // namespace

// Weights that add to the row are stored halved after every so many layers; so is the row itself.
ModelSpec rwkv6(const Fields& f) {
  const Rwkv6TimeMix mix = rwkv6_mixer(f);
  const Rwkv6ChannelMix channels{f.count({"", "feed_forward_length"}, ConfigLimits::inner)};
  const int every = f.count_or({"", "rescale_every_n_layers"}, 0, ConfigLimits::layers);
  ModelSpec spec = decoder(f, [&](int layer) {
    const Layer plain{{{mix, "attn_norm"}, {channels, "attn_norm_2"}}};
    if (every == 0 || (layer + 1) % every != 0) return plain;
    Layer halved;
    halved.body = [plain](Builder& b, Rows x) {
      x = b.run(plain, x);
      b.scale(x, 0.5f);
      return x;
    };
    return halved;
  });
  norm_layers(spec);
  return spec;
}

ModelSpec rwkv6qwen2(const Fields& f) {
  const Rwkv6TimeMix mix = rwkv6_mixer(f);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(mix, gated_mlp(f)); });
  spec.longest = 1 << 20;
  return spec;
}

ModelSpec rwkv7(const Fields& f) {
  const Rwkv7TimeMix mix = rwkv7_mixer(f);
  const Rwkv7ChannelMix channels{f.count({"", "feed_forward_length"}, ConfigLimits::inner)};
  ModelSpec spec = decoder(f, [&](int) { return Layer{{{mix, "attn_norm"}, {channels, "attn_norm_2"}}}; });
  norm_layers(spec);
  return spec;
}

ModelSpec arwkv7(const Fields& f) {
  const Rwkv7TimeMix mix = rwkv7_mixer(f);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(mix, gated_mlp(f)); });
  spec.longest = 1 << 20;
  return spec;
}

}  // namespace espalier
