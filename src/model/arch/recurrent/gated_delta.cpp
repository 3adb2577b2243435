// Gated delta nets, and what stands beside them, as Qwen3-Next's checkpoints describe them; later families share it.
// Source: Gated Delta Networks (arXiv 2412.06464); transformers' Qwen3NextModel.
#include <fmt/format.h>

#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"
#include "model/blocks/recurrent/delta_rule.h"

namespace espalier {
namespace {

const std::vector<Names::Entry> kQwenNextNames = {{"attn_qkv", "linear_attn.in_proj_qkv"},
                                                  {"attn_gate", "linear_attn.in_proj_z"},
                                                  {"ssm_in", "linear_attn.in_proj_qkvz"},
                                                  {"ssm_ba", "linear_attn.in_proj_ba"},
                                                  {"ssm_beta", "linear_attn.in_proj_b"},
                                                  {"ssm_alpha", "linear_attn.in_proj_a"},
                                                  {"ssm_conv1d", "linear_attn.conv1d"},
                                                  {"ssm_dt", "linear_attn.dt_bias"},
                                                  {"ssm_a", "linear_attn.A_log"},
                                                  {"ssm_norm", "linear_attn.norm"},
                                                  {"ssm_out", "linear_attn.out_proj"},
                                                  {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                                  {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                                  {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};

}  // namespace

const std::vector<Names::Entry>& qwen_next_names() {
  return kQwenNextNames;
}

Attention qwen_gated_attention(const Fields& f) {
  Attention a = attention_heads(f);
  a.rope = rope_of(f, {.head_dim = a.head_dim, .part = 0.25});
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.head_norm = Attention::HeadNorm::each;
  a.query_norm.one_plus = true;
  if (f.flag_or({"attn_output_gate"}, true)) a.gate = Attention::Gate::in_query;
  return a;
}

Experts qwen_shared_experts(const Fields& f) {
  Experts e = qwen_experts(f);
  e.router.renormalise = f.flag_or({"norm_topk_prob"}, true);
  e.shared_inner =
      f.count({"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, ConfigLimits::inner);
  e.shared_gated = true;
  return e;
}

DeltaRule delta_net(const Fields& f) {
  const FieldName key_heads{"linear_num_key_heads", "ssm.group_count"},
      value_heads{"linear_num_value_heads", "ssm.time_step_rank"};
  DeltaRule d;
  d.key_heads = f.count(key_heads, ConfigLimits::heads);
  d.value_heads = f.count(value_heads, ConfigLimits::heads);
  d.key_dim = f.count({"linear_key_head_dim", "ssm.state_size"}, ConfigLimits::state_keys);
  d.value_dim = f.is_gguf() ? f.count({"", "ssm.inner_size"}) / d.value_heads
                            : f.count({"linear_value_head_dim"}, ConfigLimits::head_dim);
  d.taps = taps_of(f, {"linear_conv_kernel_dim", "ssm.conv_kernel"}, 4);
  d.activation = activation_of(f);
  d.norm_eps = static_cast<float>(f.number_or({"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-6));
  if (d.value_heads % d.key_heads != 0 || d.value_dim < 1)
    f.refuse(value_heads, fmt::format("{} is {}, but must be a multiple of {}, which is {}", f.path(value_heads),
                                      d.value_heads, f.path(key_heads), d.key_heads));
  return d;
}

}  // namespace espalier
