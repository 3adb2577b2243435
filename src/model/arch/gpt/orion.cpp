// Orion: Llama with LayerNorms. Source: model card; the class beside its weights.
#include "model/arch/families.h"

namespace espalier {

ModelSpec orion(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  return spec;
}

}  // namespace espalier
