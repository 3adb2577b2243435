// Qwen2-MoE: experts beside a gated shared one. Qwen3-MoE: experts alone, their weights renormalised.
// Source: Qwen2 and Qwen3 technical reports; transformers' Qwen2MoeModel and Qwen3MoeModel.
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

bool qwen_layer_is_dense(const Fields& f, int layer) {
  const int every = f.count_or({"decoder_sparse_step"}, 1);
  return f.lists({"mlp_only_layers"}, layer) || every == 0 || (layer + 1) % every != 0;
}

Experts qwen_experts(const Fields& f) {
  Experts e = experts_of(f);
  e.inner = f.count({"moe_intermediate_size", "expert_feed_forward_length"}, ConfigLimits::inner);
  return e;
}

ModelSpec qwen2_moe(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = f.flag_or({"qkv_bias"}, true);
  Experts experts = qwen_experts(f);
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, false);
  experts.shared_inner =
      f.count({"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, ConfigLimits::inner);
  experts.shared_gated = true;
  const bool slides = !f.is_gguf() && f.flag_or({"use_sliding_window"}, false);
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool lower = layer % 2 == 0 && layer < f.integer_or({"max_window_layers"}, 28);
    const bool window = slides && layer_is(f, layer, "sliding_attention", lower);
    attention.visibility = Visibility::window(window ? f.integer_or({"sliding_window"}, 4096) : 0);
    return pre_norm(attention, qwen_layer_is_dense(f, layer) ? Block(gated_mlp(f)) : Block(experts));
  });
  spec.names.hf = {{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                   {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                   {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};
  return spec;
}

ModelSpec qwen3_moe(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.head_norm = Attention::HeadNorm::each;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  Experts experts = qwen_experts(f);
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, f.is_gguf());
  const bool slides = !f.is_gguf() && f.flag_or({"use_sliding_window"}, false);
  attention.visibility = Visibility::window(slides ? f.integer_or({"sliding_window"}, 4096) : 0);
  return decoder(f, [&](int layer) {
    return pre_norm(attention, qwen_layer_is_dense(f, layer) ? Block(gated_mlp(f)) : Block(experts));
  });
}

}  // namespace espalier
