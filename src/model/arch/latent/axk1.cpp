// A.X-K1: DeepSeek-V3 with a norm behind the experts. Source: transformers' AXK1Model.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/latent/latent.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec axk1(const Fields& f) {
  const Experts experts = deepseek_experts(f, {});
  const LatentAttention attention = latent_attention(f);
  ModelSpec spec = decoder(f, [&](int layer) {
    if (is_dense_layer(f, layer, 1)) return pre_norm(attention, gated_mlp(f));
    Layer sparse = pre_norm(attention, experts);
    sparse.halves.back().after = "post_ffw_norm";
    return sparse;
  });
  spec.names.hf = {{"post_ffw_norm", "post_mlp_layernorm|mlp.post_mlp_layernorm"}};
  return spec;
}

}  // namespace espalier
