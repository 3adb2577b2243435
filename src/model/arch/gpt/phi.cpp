// Phi-2: attention and MLP side by side, biases everywhere. Source: model card; transformers' PhiModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec phi(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
  attention.qkv_bias = attention.out_bias = true;
  if (f.is_gguf()) attention.fused = FusedQkv::side_by_side;
  if (f.flag_or({"qk_layernorm"}, false)) {
    attention.head_norm = Attention::HeadNorm::each;
    attention.query_norm = {NormOp::Kind::layer, attention.query_norm.eps, true, true};
  }
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, "gelu_new");
  mlp.gated = false;
  mlp.bias = true;
  ModelSpec spec = decoder(f, [&](int) { return parallel(attention, mlp); });
  spec.norm.kind = NormOp::Kind::layer;
  spec.norm.bias = spec.head_bias = true;
  spec.names.hf = {{"output_norm", "model.final_layernorm"},
                   {"attn_output", "self_attn.dense"},
                   {"attn_q_norm", "self_attn.q_layernorm"},
                   {"attn_k_norm", "self_attn.k_layernorm"},
                   {"ffn_up", "mlp.fc1"},
                   {"ffn_down", "mlp.fc2"}};
  return spec;
}

}  // namespace espalier
