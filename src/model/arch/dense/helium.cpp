// Helium: Llama whose neighbours turn together. Source: model card; transformers' HeliumModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec helium(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 100000});
  attention.pairs = true;
  attention.qkv_bias = f.flag_or({"attention_bias"}, false);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  return decoder(f, [&](int) { return pre_norm(attention, mlp); });
}

}  // namespace espalier
