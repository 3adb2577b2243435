// HyperCLOVA X: Granite with norms behind both halves. Source: model card; transformers' HyperCLOVAXModel.
#include "model/arch/families.h"

namespace espalier {

// Its logits are multiplied, where Granite's are divided.
ModelSpec hyperclovax(const Fields& f) {
  Attention attention = granite_attention(f);
  if (!f.has({"attention_multiplier"})) attention.scale = 0;
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  const bool around = f.flag_or({"use_post_norm"}, true);
  ModelSpec spec = decoder(f, [&](int) { return around ? sandwich(attention, mlp) : pre_norm(attention, mlp); });
  granite_scales(f, spec);
  spec.logit_scale = static_cast<float>(f.number_or({"logits_scaling"}, 1));
  spec.names.hf = {{"post_attention_norm", "post_norm1"}, {"post_ffw_norm", "post_norm2"}};
  return spec;
}

}  // namespace espalier
