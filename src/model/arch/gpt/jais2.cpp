// Jais 2: LayerNorms, plain MLPs with the square of a ReLU. Source: model card; transformers' Jais2Model.
#include "model/arch/families.h"

namespace espalier {

ModelSpec jais2(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, true);
  ModelSpec spec =
      decoder(f, [&](int) { return pre_norm(attention, plain_mlp(f, "relu2", f.flag_or({"mlp_bias"}, true))); });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  return spec;
}

}  // namespace espalier
