// CodeShell: GPT-2 with grouped heads that turn. Source: its model card; llama.cpp for names and defaults.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {

ModelSpec codeshell(const Fields& f) {
  Attention attention = attention_heads(f);
  if (!f.is_gguf()) attention.kv_heads = static_cast<int>(f.integer_or({"num_query_groups"}, 1, 1, attention.heads));
  if (attention.heads % attention.kv_heads != 0)
    f.refuse({"num_query_groups"}, "num_query_groups must divide the number of heads");
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = attention.out_bias = true;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gpt_mlp(f, "gelu_pytorch_tanh")); });
  layer_norms(f, spec);
  spec.names.gguf = {{"token_embd", "token_embd|output"}};
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
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
