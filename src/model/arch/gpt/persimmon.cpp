// Persimmon: LayerNorms, normed heads, one tensor of each head's query, key and value.
// Source: model card; transformers' PersimmonModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec persimmon(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
  attention.fused = FusedQkv::by_group;
  attention.qkv_bias = attention.out_bias = true;
  attention.query_norm = {NormOp::Kind::layer, attention.query_norm.eps, true, true};
  if (f.flag_or({"qk_layernorm"}, true)) attention.head_norm = Attention::HeadNorm::each;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, plain_mlp(f, "relu2", true)); });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  spec.names.hf = {{"output_norm", "model.final_layernorm"}, {"attn_qkv", "self_attn.query_key_value"},
                   {"attn_output", "self_attn.dense"},       {"attn_q_norm", "self_attn.q_layernorm"},
                   {"attn_k_norm", "self_attn.k_layernorm"}, {"ffn_up", "mlp.dense_h_to_4h"},
                   {"ffn_down", "mlp.dense_4h_to_h"}};
  return spec;
}

}  // namespace espalier
