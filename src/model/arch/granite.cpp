// Granite: Llama with multipliers of embedding, residual, attention scores and logits.
// Source: Granite 3.0 language models; transformers' GraniteModel.
#include "model/arch/families.h"
#include "model/blocks/experts.h"

namespace espalier {

void granite_scales(const Fields& f, ModelSpec& spec) {
  spec.embedding_scale = static_cast<float>(f.number_or({"embedding_multiplier", "embedding_scale"}, 1));
  spec.logit_scale = static_cast<float>(1 / f.number_or({"logits_scaling", "logit_scale"}, 1, {.low = 0, .above_low = true}));
  const auto residual = static_cast<float>(f.number_or({"residual_multiplier", "residual_scale"}, 1));
  for (Layer& layer : spec.layers)
    for (Half& half : layer.halves) half.scale = residual;
}

Attention granite_attention(const Fields& f) {
  Attention a = grouped_attention(f);
  a.pairs_in_gguf = true;
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.scale = static_cast<float>(f.number_or({"attention_multiplier", "attention.scale"}, 1));
  return a;
}

ModelSpec granite(const Fields& f) {
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(granite_attention(f), mlp); });
  granite_scales(f, spec);
  return spec;
}

}  // namespace espalier
