// AFMoE (Trinity): gated attention, norms around both halves. Source: model card; transformers' AfmoeModel.
#include <algorithm>
#include <cmath>

#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec afmoe(const Fields& f) {
  Attention attention = grouped_attention(f);
  const auto rope = attention.rope;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.head_norm = Attention::HeadNorm::each;
  attention.gate = Attention::Gate::own;
  Experts experts = deepseek_experts(f, {});
  experts.router.renormalise = true;
  experts.router.scale = static_cast<float>(f.number_or({"route_scale", "expert_weights_scale"}, 1));
  const int every = std::max(1, f.count_or({"global_attn_every_n_layers"}, 4));
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", (layer + 1) % every != 0);
    attention.visibility =
        Visibility::window(slides ? f.integer_or({"sliding_window", "attention.sliding_window"}, 1024) : 0);
    attention.rope = slides ? rope : std::nullopt;
    return sandwich(attention, is_dense_layer(f, layer, 1) ? Block(gated_mlp(f)) : Block(experts));
  });
  if (f.flag_or({"mup_enabled"}, f.is_gguf())) spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  spec.names.hf = {{"post_attention_norm", "post_attention_layernorm"},
                   {"ffn_norm", "pre_mlp_layernorm"},
                   {"post_ffw_norm", "post_mlp_layernorm"},
                   {"ffn_gate_inp", "mlp.router.gate"},
                   {"exp_probs_b", "mlp.expert_bias"}};
  return spec;
}

}  // namespace espalier
