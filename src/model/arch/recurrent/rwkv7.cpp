// RWKV-7: no attention, a matrix state that fades and is corrected. ARWKV-7: this mixer of tokens between Qwen 2's RMS
// norms and MLPs. Source: RWKV-7 "Goose" (arXiv 2503.14456); llama.cpp for names.
#include "model/blocks/recurrent/rwkv7.h"
#include "model/arch/families.h"
#include "model/arch/recurrent/rwkv_parts.h"

namespace espalier {
namespace {

Rwkv7TimeMix rwkv7_mixer(const Fields& f) {
  Rwkv7TimeMix mix;
  mix.head_dim = rwkv_head_dim(f);
  mix.decay_rank = f.count({"", "attention.decay_lora_rank"}, ConfigLimits::inner);
  mix.rate_rank = f.count({"", "attention.iclr_lora_rank"}, ConfigLimits::inner);
  mix.value_rank = f.count({"", "attention.value_residual_mix_lora_rank"}, ConfigLimits::inner);
  mix.gate_rank = f.count_or({"", "attention.gate_lora_rank"}, 0, ConfigLimits::inner);
  return mix;
}

}  // namespace

ModelSpec rwkv7(const Fields& f) {
  const Rwkv7TimeMix mix = rwkv7_mixer(f);
  const Rwkv7ChannelMix channels{f.count({"", "feed_forward_length"}, ConfigLimits::inner)};
  ModelSpec spec = decoder(f, [&](int) { return Layer{{{mix, "attn_norm"}, {channels, "attn_norm_2"}}}; });
  rwkv_norms(spec);
  return spec;
}

ModelSpec arwkv7(const Fields& f) {
  const Rwkv7TimeMix mix = rwkv7_mixer(f);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(mix, gated_mlp(f)); });
  spec.longest = 1 << 20;
  return spec;
}

}  // namespace espalier
