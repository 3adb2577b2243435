// MiniCPM: Granite's multipliers in other terms; GGUF files have them as Granite's. Source: MiniCPM (arXiv 2404.06395).
#include <cmath>

#include "model/arch/families.h"

namespace espalier {

ModelSpec minicpm(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
  granite_scales(f, spec);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  if (f.is_gguf()) return spec;
  spec.embedding_scale = static_cast<float>(f.number_or({"scale_emb"}, 1));
  const double depth = f.number_or({"scale_depth"}, 1) / std::sqrt(static_cast<double>(spec.layers.size()));
  for (Layer& layer : spec.layers)
    for (Half& half : layer.halves) half.scale = static_cast<float>(depth);
  if (f.has({"dim_model_base"}))
    spec.logit_scale =
        static_cast<float>(f.number_or({"dim_model_base"}, 1, {.low = 0, .above_low = true}) / spec.hidden);
  return spec;
}

}  // namespace espalier
