// Qwen 1: one tensor of query, key and value, with a bias.
// Source: the published configurations and tensors; llama.cpp for its files.
#include "model/arch/families.h"

namespace espalier {

// Its configuration counts both matrices of the gated MLP.
ModelSpec qwen(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = true;
  attention.out_bias = !f.flag_or({"no_bias"}, true);
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner) / 2;
  mlp.bias = attention.out_bias;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
                   {"output_norm", "transformer.ln_f"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_qkv", "attn.c_attn"},
                   {"attn_output", "attn.c_proj"},
                   {"ffn_gate", "mlp.w2"},
                   {"ffn_up", "mlp.w1"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

}  // namespace espalier
