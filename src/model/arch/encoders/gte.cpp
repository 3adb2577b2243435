// GTE, multilingual and English 1.5: BERT with rotation, a gated MLP, biases of attention and of the MLP's last product.
// Source: arXiv 2407.19669; transformers' GteModel.
#include "model/arch/encoders/encoder_parts.h"
#include "model/arch/families.h"

namespace espalier {

ModelSpec gte(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 160000});
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = attention.out_bias = true;
  Mlp mlp = gated_mlp(f);
  mlp.how.activation.kind = activation_of(f, "gelu");
  mlp.fused = mlp.up_first = mlp.down_bias = true;
  ModelSpec spec = encoder(f, [&](int) { return normed_sums(attention, mlp); });
  spec.token_types = f.count_or({"type_vocab_size"}, 1, 1 << 16);
  spec.longest = 8192;
  rename(spec.names, {{"attn_qkv", "attention.qkv_proj"},
                      {"attn_output", "attention.o_proj"},
                      {"attn_output_norm", "attn_ln"},
                      {"ffn_gate_up", "mlp.up_gate_proj"},
                      {"ffn_down", "mlp.down_proj"},
                      {"layer_output_norm", "mlp_ln"}});
  return spec;
}

}  // namespace espalier
