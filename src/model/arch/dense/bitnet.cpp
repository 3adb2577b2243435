// BitNet: norms inside of attention and MLP. Source: BitNet b1.58 2B4T (arXiv 2504.12285); transformers' BitNetModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec bitnet(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 500000});
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.out_norm = true;
  Mlp mlp = gated_mlp(f);
  mlp.how.activation.kind = activation_of(f, f.is_gguf() ? "silu" : "relu2");
  mlp.inner_norm = true;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.names.hf = {{"attn_sub_norm", "self_attn.attn_sub_norm"}, {"ffn_sub_norm", "mlp.ffn_sub_norm"}};
  return spec;
}

}  // namespace espalier
