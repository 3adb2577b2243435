// Seed-OSS: Llama with biases. Source: model card; transformers' SeedOssModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec seed_oss(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = f.flag_or({"attention_bias"}, true);
  attention.out_bias = f.flag_or({"attention_out_bias"}, false);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.names.gguf = {{"ffn_norm", "post_attention_norm"}};
  return spec;
}

}  // namespace espalier
