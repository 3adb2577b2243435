// EXAONE 3: Llama under names of its own. Source: EXAONE report; llama.cpp for its tensors.
#include "model/arch/families.h"

namespace espalier {

ModelSpec exaone(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 500000});
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
                   {"output_norm", "transformer.ln_f"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_q", "attn.attention.q_proj"},
                   {"attn_k", "attn.attention.k_proj"},
                   {"attn_v", "attn.attention.v_proj"},
                   {"attn_output", "attn.attention.out_proj"},
                   {"ffn_gate", "mlp.c_fc_0"},
                   {"ffn_up", "mlp.c_fc_1"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

}  // namespace espalier
