// Smaller families with experts: DBRX (experts below one another in three tensors, clipped values), Dots 1, AFMoE
// (Trinity: gated attention, norms around both halves), Laguna (gates by softplus, heads that differ between layers),
// Mellum 2. Source: their model cards and transformers' classes.
#include <cmath>

#include "model/arch/experts/routed.h"
#include "model/arch/families.h"

namespace espalier {

ModelSpec dbrx(const Fields& f) {
  const Fields own = f.is_gguf() ? f : f.at({"attn_config"}), ffn = f.is_gguf() ? f : f.at({"ffn_config"});
  Attention attention = attention_heads(f);
  if (!f.is_gguf()) attention.kv_heads = std::max(1, own.count_or({"kv_n_heads"}, 1, attention.heads));
  if (attention.heads % attention.kv_heads != 0) own.refuse({"kv_n_heads"}, "kv_n_heads must divide n_heads");
  attention.rope =
      rope_of(f, {.head_dim = attention.head_dim,
                  .theta = own.number_or({"rope_theta", "rope.freq_base"}, 10000, {.low = 0, .above_low = true})});
  attention.fused = FusedQkv::side_by_side;
  attention.clip = static_cast<float>(own.number_or({"clip_qkv", "attention.clamp_kqv"}, 0, {.low = 0}));
  Experts experts;
  experts.router.count = ffn.count({"moe_num_experts", "expert_count"}, ConfigLimits::experts);
  experts.router.chosen = ffn.count({"moe_top_k", "expert_used_count"}, experts.router.count);
  experts.router.renormalise = !ffn.says_null({"moe_normalize_expert_weights"});
  if (ffn.number_or({"moe_normalize_expert_weights"}, 1) != 1)
    ffn.refuse({"moe_normalize_expert_weights"}, "moe_normalize_expert_weights must be 1 or null here");
  experts.inner = ffn.count({"ffn_hidden_size", "feed_forward_length"}, ConfigLimits::inner);
  experts.how.activation.kind = activation_of(ffn.at({"ffn_act_fn"}), "silu");
  experts.fused = FusedExperts::stacked;
  experts.gate = "w1";
  experts.up = "v1";
  experts.down = "w2";
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, experts); });
  spec.norm = {NormOp::Kind::layer, 1e-5f, true, false};
  spec.names.layer_prefix = "transformer.blocks.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},        {"output_norm", "transformer.norm_f"},
                   {"attn_norm", "norm_attn_norm.norm_1"},   {"ffn_norm", "norm_attn_norm.norm_2"},
                   {"attn_qkv", "norm_attn_norm.attn.Wqkv"}, {"attn_output", "norm_attn_norm.attn.out_proj"},
                   {"ffn_gate_inp", "ffn.router.layer"},     {"ffn_exps", "ffn.experts.mlp"}};
  spec.names.gguf = {{"ffn_norm", "attn_output_norm"}};
  return spec;
}

ModelSpec dots1(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.head_norm = Attention::HeadNorm::each;
  const Experts experts = deepseek_experts(f, {.renormalise = false});
  const std::int64_t window = f.integer_or({"sliding_window"}, 4096), upper = f.integer_or({"max_window_layers"}, 62);
  return decoder(f, [&](int layer) {
    const bool slides =
        layer_is(f, layer, "sliding_attention", !f.is_gguf() && !f.says_null({"sliding_window"}) && layer >= upper);
    attention.visibility = Visibility::window(slides ? window : 0);
    return pre_norm(attention, is_dense_layer(f, layer, 0) ? Block(gated_mlp(f)) : Block(experts));
  });
}

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

static Attention laguna_attention(const Fields& f, int layer) {
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

ModelSpec mellum(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.head_norm = Attention::HeadNorm::each;
  Experts experts = experts_of(f);
  experts.router.renormalise = f.flag_or({"norm_topk_prob", "expert_weights_norm"}, true);
  const bool apart = f.at({"rope_parameters"}).has({"sliding_attention"});
  return decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", false);
    attention.visibility =
        Visibility::window(slides ? f.integer_or({"sliding_window", "attention.sliding_window"}, 1024) : 0);
    RopeWish wish{.head_dim = attention.head_dim, .part = 1};
    if (apart) wish.layer_type = slides ? "sliding_attention" : "full_attention";
    attention.rope = rope_of(f, wish);
    return pre_norm(attention, is_dense_layer(f, layer, 0) ? Block(gated_mlp(f)) : Block(experts));
  });
}

}  // namespace espalier
