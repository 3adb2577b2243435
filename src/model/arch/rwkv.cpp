// RWKV-7: no attention, a matrix state that fades and is corrected. ARWKV-7: the same mixer of tokens between Qwen 2's RMS
// norms and MLPs. Source: RWKV-7 "Goose" (arXiv 2503.14456); llama.cpp for names.
#include <fmt/format.h>

#include "model/arch/families.h"
#include "model/blocks/rwkv7.h"

namespace espalier {
namespace {

Rwkv7TimeMix rwkv7_mixer(const Fields& f) {
  if (!f.is_gguf())
    f.refuse({"model_type"}, "RWKV is read from GGUF files only; the model's conversion would work");
  const FieldName size{"head_dim", "wkv.head_size"};
  Rwkv7TimeMix mix;
  mix.head_dim = f.count(size, ConfigLimits::state_keys);
  mix.decay_rank = f.count({"", "attention.decay_lora_rank"}, ConfigLimits::inner);
  mix.rate_rank = f.count({"", "attention.iclr_lora_rank"}, ConfigLimits::inner);
  mix.value_rank = f.count({"", "attention.value_residual_mix_lora_rank"}, ConfigLimits::inner);
  mix.gate_rank = f.count_or({"", "attention.gate_lora_rank"}, 0, ConfigLimits::inner);
  if (hidden_size(f) % mix.head_dim != 0)
    f.refuse(size, fmt::format("{} is {}, but must divide the width of the model, which is {}", f.path(size),
                               mix.head_dim, hidden_size(f)));
  return mix;
}

}  // namespace

ModelSpec rwkv7(const Fields& f) {
  const Rwkv7TimeMix mix = rwkv7_mixer(f);
  const Rwkv7ChannelMix channels{f.count({"", "feed_forward_length"}, ConfigLimits::inner)};
  ModelSpec spec = decoder(f, [&](int) { return Layer{{{mix, "attn_norm"}, {channels, "attn_norm_2"}}}; });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  spec.embedding_norm = "token_embd_norm";
  spec.longest = 1 << 20;
  return spec;
}

ModelSpec arwkv7(const Fields& f) {
  const Rwkv7TimeMix mix = rwkv7_mixer(f);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(mix, gated_mlp(f)); });
  spec.longest = 1 << 20;
  return spec;
}

}  // namespace espalier
