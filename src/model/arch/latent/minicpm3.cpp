// MiniCPM3: latent attention; both halves and the embedding are scaled. Source: MiniCPM (arXiv 2404.06395).
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/latent/latent.h"

namespace espalier {

ModelSpec minicpm3(const Fields& f) {
  LatentAttention attention = latent_attention(f);
  attention.pairs = false;
  // Where a factor is null there is none; where it is absent it is that of the published model.
  const auto factor = [&](const char* name, double published, double none) {
    return f.number_or({name}, f.object().contains(name) ? none : published, {.low = 0, .above_low = true});
  };
  const double layers = layer_count(f), depth = factor("scale_depth", 1.4, std::sqrt(layers));
  ModelSpec spec = decoder(f, [&](int) {
    Layer layer = pre_norm(attention, gated_mlp(f));
    for (Half& half : layer.halves) half.scale = static_cast<float>(depth / std::sqrt(layers));
    return layer;
  });
  spec.embedding_scale = static_cast<float>(factor("scale_emb", 12, 1));
  spec.logit_scale = static_cast<float>(factor("dim_model_base", 256, spec.hidden) / spec.hidden);
  return spec;
}

}  // namespace espalier
