// Arcee: Llama with the square of a ReLU in plain MLPs. Source: model card; transformers' ArceeModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec arcee(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  return decoder(f, [&](int) { return pre_norm(attention, plain_mlp(f, "relu2", f.flag_or({"mlp_bias"}, false))); });
}

}  // namespace espalier
