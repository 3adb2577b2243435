// OLMo hybrid: gated delta nets with norms before their halves, every fourth layer OLMo 2's attention with norms behind.
// Source: OLMo hybrid; transformers' OlmoHybridModel.
#include <algorithm>

#include "model/arch/families.h"

namespace espalier {
namespace {

DeltaRule olmo_delta(const Fields& f, const Attention& like) {
  DeltaRule d{.stored = DeltaRule::Stored::apart};
  d.key_heads = std::max(1, f.count_or({"linear_num_key_heads"}, like.heads, ConfigLimits::heads));
  d.value_heads = std::max(1, f.count_or({"linear_num_value_heads"}, like.heads, ConfigLimits::heads));
  const int width = static_cast<int>(0.75 * hidden_size(f) / d.key_heads);
  d.key_dim = std::max(1, f.count_or({"linear_key_head_dim"}, width, ConfigLimits::state_keys));
  d.value_dim = std::max(1, f.count_or({"linear_value_head_dim"}, 2 * d.key_dim, ConfigLimits::head_dim));
  d.taps = taps_of(f, {"linear_conv_kernel_dim"}, 4);
  d.activation = activation_of(f);
  if (f.flag_or({"linear_allow_neg_eigval"}, true)) d.beta_scale = 2.0f;
  d.norm_eps = 1e-5f;
  d.query = "linear_q";
  d.key = "linear_k";
  d.value = "linear_v";
  if (d.value_heads % d.key_heads != 0)
    f.refuse({"linear_num_value_heads"}, "linear_num_value_heads must be a multiple of linear_num_key_heads");
  return d;
}

}  // namespace

ModelSpec olmo_hybrid(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.head_norm = Attention::HeadNorm::whole;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  if (!f.at({"rope_parameters"}).has({"rope_theta"}) && !f.has({"rope_theta"})) attention.rope.reset();
  const DeltaRule delta = olmo_delta(f, attention);
  ModelSpec spec = decoder(f, [&](int layer) {
    if (layer_is(f, layer, "full_attention", layer % 4 == 3)) return post_norm(attention, gated_mlp(f));
    return Layer{{{delta, "attn_norm"}, {gated_mlp(f), "ffn_norm"}}};
  });
  spec.names.hf = {{"linear_q", "linear_attn.q_proj"},
                   {"linear_k", "linear_attn.k_proj"},
                   {"linear_v", "linear_attn.v_proj"},
                   {"ssm_g_a", "linear_attn.g_proj"},
                   {"ssm_f_a", "linear_attn.a_proj"},
                   {"ssm_beta", "linear_attn.b_proj"},
                   {"ssm_conv1d", "linear_attn.conv1d"},
                   {"ssm_conv1d_q", "linear_attn.q_conv1d"},
                   {"ssm_conv1d_k", "linear_attn.k_conv1d"},
                   {"ssm_conv1d_v", "linear_attn.v_conv1d"},
                   {"ssm_a", "linear_attn.A_log"},
                   {"ssm_dt", "linear_attn.dt_bias"},
                   {"ssm_norm", "linear_attn.o_norm"},
                   {"ssm_out", "linear_attn.o_proj"},
                   {"attn_norm", "attention_layer_norm"},
                   {"ffn_norm", "feedforward_layer_norm"},
                   {"post_attention_norm", "post_attention_layernorm"},
                   {"post_ffw_norm", "post_feedforward_layernorm"}};
  return spec;
}

}  // namespace espalier
