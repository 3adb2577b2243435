// PLaMo 3: norms around both halves, windows in seven of eight layers. Source: PLaMo model cards; llama.cpp and vLLM for
// names and layouts.
#include "model/arch/dense/plamo_parts.h"
#include "model/arch/families.h"

namespace espalier {

ModelSpec plamo3(const Fields& f) {
  const std::int64_t window = f.integer_or({"window_size|sliding_window", "attention.sliding_window"}, 0);
  const std::int64_t every = f.is_gguf() ? 8 : f.integer_or({"sliding_window_pattern"}, 8, 1);
  if (f.number_or({"rope_scaling_factor"}, 1) != 1)
    f.refuse({"rope_scaling_factor"}, "rope_scaling_factor must be 1 here; the model's GGUF form may have another");
  return plamo_model(f, [&](int layer) -> Block {
    Attention a = plamo_attention(f, f.is_gguf() ? layer : -1);
    const bool slides = window > 0 && layer_is(f, layer, "sliding_attention", (layer + 1) % every != 0);
    RopeWish wish{.head_dim = a.head_dim};
    if (slides) {
      wish.theta = f.number_or({"rope_local_theta", "rope.freq_base_swa"}, 10000, {.low = 1});
      wish.own_theta = true;
      wish.scaled = false;
    }
    a.rope = rope_of(f, wish);
    a.visibility = Visibility::window(slides ? window : 0);
    a.head_norm = Attention::HeadNorm::each;
    a.query_norm.one_plus = true;
    return a;
  });
}

}  // namespace espalier
