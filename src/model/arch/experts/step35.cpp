// Step 3.5 and 3.7 Flash: windows in most layers, which have heads and a base of rotation of their own, a gate for each
// head, experts beside a shared one whose gates are clamped behind their activation in the last layers.
// Source: Step 3.5 Flash; transformers' Step3p7TextModel.
#include <cmath>

#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// silu(min(x, this)) is min(silu(x), most): above 1 silu grows.
float gate_limit_of(double most) {
  double x = most;
  for (int i = 0; i < 60; ++i) x = most * (1 + std::exp(-x));
  return static_cast<float>(x);
}

GateForm clamped(const Fields& f, FieldName name, int layer) {
  GateForm how{.activation = {ActivationKind::silu}};
  const double limit = f.has(name) ? f.number_of(name, layer, 0, {.low = 0, .high = 1e6}) : 0;
  if (limit == 0) return how;
  if (limit < 1) f.refuse(name, "a clamp below 1 is not supported for this family");
  how.gate_limit = gate_limit_of(std::max(limit, 1.0));
  how.up_limit = static_cast<float>(limit);
  return how;
}

// By the lists of published files, by types of layers, or by GGUF's keys.
RopeSpec step_rope(const Fields& f, int layer, int head_dim, bool slides) {
  RopeWish wish{.head_dim = head_dim};
  if (f.is_gguf()) {
    const int dims = f.count_or({"", "rope.dimension_count"}, head_dim, head_dim);
    wish.dims = slides ? f.count_or({"", "rope.dimension_count_swa"}, dims, head_dim) : dims / 2;
    wish.theta = f.number_or({"", "rope.freq_base"}, 10000, {.low = 1});
    if (slides) wish.theta = f.number_or({"", "rope.freq_base_swa"}, wish.theta, {.low = 1});
    wish.own_theta = true;
    RopeSpec spec = rope_of(f, wish);
    if (slides) spec.factors_in_file = false;
    return spec;
  }
  if (f.at({"rope_parameters"}).has({"full_attention"})) {
    wish.layer_type = slides ? "sliding_attention" : "full_attention";
    wish.part = 1;
    return rope_of(f, wish);
  }
  wish.theta = f.number_of({"rope_theta"}, layer, 10000, {.low = 1});
  wish.own_theta = true;
  wish.dims =
      2 * static_cast<int>(f.number_of({"partial_rotary_factors"}, layer, 1, {.low = 0, .high = 1}) * head_dim / 2);
  wish.scaled = !slides;
  return rope_of(f, wish);
}

Attention step_attention(const Fields& f, int layer, bool slides) {
  Attention a = attention_heads(f, f.is_gguf() ? layer : -1);
  const Fields other = f.at({"attention_other_setting"});
  if (slides && !f.is_gguf()) {
    const int heads = f.has({"num_sliding_attention_heads"})
                          ? f.count({"num_sliding_attention_heads"}, ConfigLimits::heads)
                          : other.count_or({"num_attention_heads"}, a.heads, ConfigLimits::heads);
    a.heads = std::max(1, heads);
    a.kv_heads = std::max(1, other.count_or({"num_attention_groups"}, a.kv_heads, a.heads));
  }
  if (a.heads % a.kv_heads != 0 || std::int64_t{a.heads} * a.head_dim > ConfigLimits::attention_width)
    f.refuse({"num_attention_heads", "attention.head_count"},
             "the heads of a layer must be a multiple of its KV heads");
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.head_norm = Attention::HeadNorm::each;
  a.head_norm_may_lack = true;
  a.query_norm.one_plus = true;
  a.gate = Attention::Gate::own_by_head;
  a.rope = step_rope(f, layer, a.head_dim, slides);
  a.visibility = Visibility::window(slides ? f.integer_or({"sliding_window", "attention.sliding_window"}, 512) : 0);
  if (f.has({"query_pre_attn_scalar"}))
    a.scale =
        1.0f / std::sqrt(static_cast<float>(f.number_or({"query_pre_attn_scalar"}, 1, {.low = 0, .above_low = true})));
  return a;
}

// moe_layers_enum: "3,4,5" or a list.
bool step_is_dense(const Fields& f, int layer) {
  if (f.is_gguf() || f.has({"mlp_layer_types"})) return is_dense_layer(f, layer, 0);
  const FieldName name{"moe_layers_enum"};
  const Json* told = f.find(name);
  if (told == nullptr) return layer < 3;
  if (!told->is_string()) return !f.lists(name, layer);
  return ("," + f.word_or(name, "") + ",").find("," + std::to_string(layer) + ",") == std::string::npos;
}

}  // namespace

ModelSpec step35(const Fields& f) {
  Experts experts = deepseek_experts(f, {});
  experts.router.renormalise = true;
  experts.router.renormalise_eps = 0.0f;
  experts.router.scale = static_cast<float>(f.number_or({"moe_router_scaling_factor", "expert_weights_scale"}, 1));
  experts.fused = FusedExperts::apart;
  experts.shared_inner = static_cast<int>(f.integer_or(
      {"share_expert_dim|share_expert_dims", "expert_shared_feed_forward_length"}, 1280, 1, ConfigLimits::inner));
  Mlp mlp = gated_mlp(f);
  mlp.bias = experts.shared_bias = f.flag_or({"mlp_bias"}, false);
  const FieldName limits{"swiglu_limits", "swiglu_clamp_exp"}, shared{"swiglu_limits_shared", "swiglu_clamp_shexp"};
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", false);
    mlp.how = clamped(f, shared, layer);
    experts.how = clamped(f, limits, layer);
    experts.shared_how = mlp.how;
    return pre_norm(step_attention(f, layer, slides), step_is_dense(f, layer) ? Block(mlp) : Block(experts));
  });
  spec.norm.one_plus = true;
  spec.names.hf = {{"attn_gate", "self_attn.g_proj"},
                   {"ffn_gate_inp", "moe.gate|mlp.gate"},
                   {"exp_probs_b", "moe.router_bias|mlp.gate.e_score_correction_bias"},
                   {"ffn_exps", "moe|mlp.experts"},
                   {"ffn_gate_shexp", "share_expert.gate_proj|mlp.shared_experts.gate_proj"},
                   {"ffn_up_shexp", "share_expert.up_proj|mlp.shared_experts.up_proj"},
                   {"ffn_down_shexp", "share_expert.down_proj|mlp.shared_experts.down_proj"}};
  return spec;
}

}  // namespace espalier
