// Jais: GPT-2 with ALiBi and a gated MLP. Source: its model card; llama.cpp for names and defaults.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {

ModelSpec jais(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.slopes =
      alibi_slopes(attention.heads, f.number_or({"", "attention.max_alibi_bias"}, 8, {.low = 0, .high = 64}));
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = attention.out_bias = true;
  if (f.flag_or({"mup_scale_qk_dot_by_d|scale_qk_dot_by_d"}, f.is_gguf()))
    attention.scale = 1.0f / static_cast<float>(attention.head_dim);
  if (f.word_or({"activation_function"}, "swiglu") != "swiglu" ||
      f.word_or({"position_embedding_type"}, "alibi") != "alibi")
    f.refuse({"activation_function"}, "only Jais with swiglu and alibi is supported here");
  Mlp mlp;
  mlp.inner = f.count_or({"n_inner", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  mlp.bias = true;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  layer_norms(f, spec);
  spec.embedding_scale = static_cast<float>(f.number_or({"mup_embeddings_scale|embeddings_scale"}, 1));
  spec.logit_scale = static_cast<float>(f.has({"mup_output_alpha"})
                                            ? f.number_or({"mup_output_alpha"}, 1) * f.number_or({"mup_width_scale"}, 1)
                                            : f.number_or({"width_scale"}, 1));
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.transposed = true;
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
                   {"output_norm", "transformer.ln_f"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_qkv", "attn.c_attn"},
                   {"attn_output", "attn.c_proj"},
                   {"ffn_up", "mlp.c_fc"},
                   {"ffn_gate", "mlp.c_fc2"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

}  // namespace espalier
