// StarCoder2: LayerNorms, plain MLPs, a window. Source: StarCoder 2 (arXiv 2402.19173); transformers' Starcoder2Model.
#include "model/arch/families.h"

namespace espalier {

ModelSpec starcoder2(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"use_bias"}, true);
  attention.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 0));
  const Mlp mlp = plain_mlp(f, "gelu_pytorch_tanh", f.flag_or({"use_bias"}, true));
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.norm.kind = NormOp::Kind::layer;
  spec.norm.bias = true;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};
  return spec;
}

}  // namespace espalier
