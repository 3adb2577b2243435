// Granite: Llama with multipliers of embedding, residual, attention scores and logits.
// Source: Granite 3.0 language models; transformers' GraniteModel.
#include "model/arch/families.h"

namespace espalier {

void granite_scales(const Fields& f, ModelSpec& spec) {
  spec.embedding_scale = static_cast<float>(f.number_or({"embedding_multiplier", "embedding_scale"}, 1));
  spec.logit_scale =
      static_cast<float>(1 / f.number_or({"logits_scaling", "logit_scale"}, 1, {.low = 0, .above_low = true}));
  const auto residual = static_cast<float>(f.number_or({"residual_multiplier", "residual_scale"}, 1));
  for (Layer& layer : spec.layers)
    for (Half& half : layer.halves) half.scale = residual;
}

Attention granite_attention(const Fields& f, int layer) {
  Attention a = grouped_attention(f, layer);
  a.pairs_in_gguf = true;
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.scale = static_cast<float>(f.number_or({"attention_multiplier", "attention.scale"}, f.is_gguf() ? 0 : 1));
  return a;
}

ModelSpec granite(const Fields& f) {
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(granite_attention(f), mlp); });
  granite_scales(f, spec);
  return spec;
}

// Granite 4.1: sinks, windows in most layers, a base of rotation for each (0: none).
void granite_slides(const Fields& f, int layer, Attention& a) {
  const bool window = layer_is(f, layer, "sliding_attention", layer % 4 != 0);
  const std::int64_t size =
      f.says_null({"sliding_window"}) ? 0 : f.integer_or({"sliding_window", "attention.sliding_window"}, 128);
  a.visibility = Visibility::window(window ? size : 0);
  a.sinks = true;
  if (!f.flag_of({"", "attention.rope_pattern"}, layer, true)) a.rope.reset();
  if (!f.has({"layer_rope_theta"})) return;
  const double theta = f.number_of({"layer_rope_theta"}, layer, 0, {.low = 0});
  a.rope.reset();
  if (theta > 0) a.rope = rope_of(f, {.head_dim = a.head_dim, .theta = theta, .own_theta = true});
}

ModelSpec granite_swa(const Fields& f) {
  if (f.is_gguf() && f.count_or({"", "expert_count"}, 0) > 0) return granite_moe_swa(f);  // such files say the same
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int layer) {
    Attention attention = granite_attention(f);
    granite_slides(f, layer, attention);
    return pre_norm(attention, mlp);
  });
  granite_scales(f, spec);
  return spec;
}

}  // namespace espalier
