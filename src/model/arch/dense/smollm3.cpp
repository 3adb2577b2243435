// SmolLM3: Llama with some layers without positions. Source: model card; transformers' SmolLM3Model.
#include <algorithm>

#include "model/arch/families.h"

namespace espalier {

ModelSpec smollm3(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  const auto rope = attention.rope;
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  const int every = std::max(1, f.count_or({"no_rope_layer_interval"}, 4));
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool turns = f.count_of({"no_rope_layers"}, layer, (layer + 1) % every != 0 ? 1 : 0) != 0;
    attention.rope = turns ? rope : std::nullopt;
    const bool slides = f.flag_or({"use_sliding_window"}, false) && layer_is(f, layer, "sliding_attention", false);
    attention.visibility = Visibility::window(slides ? f.integer_or({"sliding_window"}, 0) : 0);
    return pre_norm(attention, mlp);
  });
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  return spec;
}

}  // namespace espalier
