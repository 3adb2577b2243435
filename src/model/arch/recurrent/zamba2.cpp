// Zamba 2: Mamba-2 mixers, several shared pairs in turn, adapters of each layer's own. Source: Zamba2 (arXiv
// 2411.15242); transformers' Zamba2Model.
#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/arch/recurrent/zamba_parts.h"

namespace espalier {

ModelSpec zamba2(const Fields& f) {
  Mamba2 mixer = mamba2_of(f);
  const double expand = f.number_or({"mamba_expand"}, 2, {.low = 0, .high = 64, .above_low = true});
  mixer.head_dim = std::max(1, static_cast<int>(expand * hidden_size(f)) / mixer.heads);
  mixer.conv_bias = true;
  mixer.in_bias = mixer.out_bias = f.flag_or({"add_bias_linear"}, false);
  mixer.least_step = static_cast<float>(f.number_or({"time_step_min"}, 0.001, {.low = 0}));
  mixer.norm_eps = 1e-5f;
  const int heads = attention_heads(f).heads, inner = 4 * hidden_size(f);
  const int rank = static_cast<int>(f.integer_or({"adapter_rank"}, 128, 1, ConfigLimits::inner));
  SharedPair pair;
  pair.attention = zamba_attention(f, std::max(1, 2 * hidden_size(f) / heads));
  if (f.flag_or({"use_mem_rope"}, false)) pair.attention.rope = rope_of(f, {.head_dim = pair.attention.head_dim});
  if (f.flag_or({"use_shared_attention_adapter"}, false))
    pair.attention.adapters = {{"attn_q_lora_a", "attn_q_lora_b", rank},
                               {"attn_k_lora_a", "attn_k_lora_b", rank},
                               {"attn_v_lora_a", "attn_v_lora_b", rank}};
  pair.mlp.inner = static_cast<int>(f.integer_or({"intermediate_size"}, inner, 1, ConfigLimits::inner));
  pair.mlp.how.activation.kind = activation_of(f, "gelu");
  pair.mlp.fused = true;
  pair.mlp.bias = mixer.in_bias;
  pair.mlp.adapter = Adapter{"ffn_gate_up_lora_a", "ffn_gate_up_lora_b", rank};
  const int pairs = static_cast<int>(f.integer_or({"num_mem_blocks"}, 1, 1, ConfigLimits::layers));
  ModelSpec spec = zamba_model(f, mixer, pair, pairs, "shared_transformer", [](int layer) {
    return (layer > 0 && layer <= 42 && layer % 6 == 0) || layer == 47 || layer == 51;
  });
  spec.names.hf.push_back({"ssm_dt", "mamba.dt_bias|mamba_decoder.mamba.dt_bias"});
  return spec;
}

}  // namespace espalier
