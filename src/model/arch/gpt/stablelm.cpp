// StableLM: LayerNorms, a part of each head turns. Source: model cards; transformers' StableLmModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec stablelm(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.25});
  attention.qkv_bias = f.flag_or({"use_qkv_bias"}, false);
  const bool beside = f.flag_or({"use_parallel_residual", "use_parallel_residual"}, false);
  attention.query_norm = {NormOp::Kind::layer, attention.query_norm.eps};
  attention.head_norm_may_lack = true;
  if (f.flag_or({"qk_layernorm"}, f.is_gguf())) attention.head_norm = Attention::HeadNorm::each_apart;
  ModelSpec spec =
      decoder(f, [&](int) { return beside ? parallel(attention, gated_mlp(f)) : pre_norm(attention, gated_mlp(f)); });
  spec.norm.kind = NormOp::Kind::layer;
  spec.norm.bias = true;
  spec.names.hf = {{"attn_q_norm", "self_attn.q_layernorm.norms"}, {"attn_k_norm", "self_attn.k_layernorm.norms"}};
  return spec;
}

}  // namespace espalier
