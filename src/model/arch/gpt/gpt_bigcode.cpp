// GPT-BigCode (StarCoder): GPT-2 with one KV head. Source: model card; transformers' GPTBigCodeModel.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {

ModelSpec gpt_bigcode(const Fields& f) {
  Attention attention = attention_heads(f);
  const bool one = f.is_gguf() || f.flag_or({"multi_query"}, true);
  if (one) attention.kv_heads = 1;
  attention.fused = one ? FusedQkv::side_by_side : FusedQkv::by_group;
  attention.qkv_bias = attention.out_bias = true;
  if (!f.flag_or({"scale_attn_weights"}, true)) attention.scale = 1.0f;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gpt_mlp(f, "gelu_pytorch_tanh")); });
  layer_norms(f, spec);
  learned_positions(f, spec);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
                   {"position_embd", "transformer.wpe"},
                   {"output_norm", "transformer.ln_f"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_qkv", "attn.c_attn"},
                   {"attn_output", "attn.c_proj"},
                   {"ffn_up", "mlp.c_fc"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

}  // namespace espalier
