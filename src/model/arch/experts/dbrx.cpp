// DBRX: experts below one another in three tensors, clipped values. Source: model card; transformers' DbrxModel.
#include <algorithm>

#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

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

}  // namespace espalier
