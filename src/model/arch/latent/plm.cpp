// PLM: latent attention and a plain MLP of squared relu. Source: PLM (arXiv 2503.12167); llama.cpp for names.
#include "model/arch/families.h"
#include "model/arch/latent/latent.h"

namespace espalier {

ModelSpec plm(const Fields& f) {
  LatentAttention attention = latent_attention(f);
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, "relu2");
  mlp.gated = false;
  return decoder(f, [&](int) { return pre_norm(attention, mlp); });
}

}  // namespace espalier
