// Step 3.5 and 3.7 Flash: windows in most layers, which have heads and a base of rotation of their own, a gate for each
// head, experts beside a shared one whose gates are clamped behind their activation in the last layers.
// Source: Step 3.5 Flash; transformers' Step3p7TextModel.
#include <cmath>

#include "model/arch/experts/step35_attention.h"
#include "model/arch/families.h"

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
