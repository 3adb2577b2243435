// Gemma: embeddings scaled by the root of their width, norms of 1 + w, gelu. Gemma 2: norms before and behind each half,
// soft caps, every second layer with a window. VaultGemma: the same without norms behind the halves.
// Source: Gemma and Gemma 2 reports.
#include "model/arch/families.h"
#include "model/arch/gemma/gemma.h"

namespace espalier {

ModelSpec gemma(const Fields& f) {
  Attention attention = gemma_attention(f);
  attention.scale = 0;
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  ModelSpec spec = gemma_decoder(f, [&](int) { return pre_norm(attention, gemma_mlp(f)); });
  spec.names.hf.clear();
  return spec;
}

ModelSpec gemma2(const Fields& f) {
  Attention attention = gemma_attention(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  const std::int64_t window = f.integer_or({"sliding_window", "attention.sliding_window"}, 4096);
  return gemma_decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(layer_is(f, layer, "sliding_attention", layer % 2 == 0) ? window : 0);
    return sandwich(attention, gemma_mlp(f));
  });
}

// VaultGemma: the same without norms behind the halves.
ModelSpec vaultgemma(const Fields& f) {
  Attention attention = gemma_attention(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  const std::int64_t window = f.integer_or({"sliding_window"}, 4096);
  return gemma_decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(layer_is(f, layer, "sliding_attention", layer % 2 == 0) ? window : 0);
    return pre_norm(attention, gemma_mlp(f));
  });
}

}  // namespace espalier
