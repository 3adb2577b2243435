// Nemotron: LayerNorms whose gains are stored less one, plain MLPs with the square of a ReLU.
// Source: Nemotron-4 (arXiv 2402.16819); transformers' NemotronModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec nemotron(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  ModelSpec spec =
      decoder(f, [&](int) { return pre_norm(attention, plain_mlp(f, "relu2", f.flag_or({"mlp_bias"}, false))); });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true, true};
  return spec;
}

}  // namespace espalier
