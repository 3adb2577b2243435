// Laguna: gates by softplus, heads that differ between layers. Source: model card; transformers' LagunaModel.
#include <algorithm>

#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {
namespace {

Attention laguna_attention(const Fields& f, int layer) {
  Attention a = attention_heads(f);
  a.heads = std::max(1, f.count_of({"num_attention_heads_per_layer"}, layer, a.heads, ConfigLimits::heads));
  if (a.heads % a.kv_heads != 0 || std::int64_t{a.heads} * a.head_dim > ConfigLimits::attention_width)
    f.refuse({"num_attention_heads_per_layer"}, "the heads of a layer must be a multiple of num_key_value_heads");
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.head_norm = Attention::HeadNorm::each;
  const Json* gating = f.find({"gating"});
  const bool by_head = gating == nullptr || *gating == true || *gating == "per-head";
  a.gate = by_head ? Attention::Gate::own_by_head : Attention::Gate::own;
  a.gate_activation = ActivationKind::softplus;
  const bool slides = layer_is(f, layer, "sliding_attention", false);
  RopeWish wish{.head_dim = a.head_dim, .theta = slides ? 10000.0 : 500000.0, .part = slides ? 1.0 : 0.5};
  wish.layer_type = slides ? "sliding_attention" : "full_attention";
  a.rope = rope_of(f, wish);
  a.visibility = Visibility::window(slides ? f.integer_or({"sliding_window"}, 512) : 0);
  return a;
}

}  // namespace

ModelSpec laguna(const Fields& f) {
  Experts experts = deepseek_experts(f, {});
  experts.router.renormalise = true;
  experts.router.renormalise_eps = 0;
  experts.router.scale = static_cast<float>(f.number_or({"moe_routed_scaling_factor"}, 1));
  experts.router.cap = static_cast<float>(f.number_or({"moe_router_logit_softcapping"}, 0, {.low = 0}));
  experts.shared_inner = f.count_or({"shared_expert_intermediate_size"}, 512, ConfigLimits::inner);
  if (f.flag_or({"moe_apply_router_weight_on_input"}, false))
    f.refuse({"moe_apply_router_weight_on_input"},
             "moe_apply_router_weight_on_input is true, which is not supported for Laguna");
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(laguna_attention(f, layer), is_dense_layer(f, layer, 1) ? Block(gated_mlp(f)) : Block(experts));
  });
  spec.names.hf = {{"attn_gate", "self_attn.g_proj"},
                   {"exp_probs_b", "mlp.experts.e_score_correction_bias"},
                   {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                   {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                   {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};
  return spec;
}

}  // namespace espalier
