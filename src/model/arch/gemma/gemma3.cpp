// Gemma 3: query and key norms, two bases of rotation. Source: Gemma 3 report.
#include <algorithm>

#include "model/arch/families.h"
#include "model/arch/gemma/gemma.h"

namespace espalier {

ModelSpec gemma3(const Fields& f) {
  Attention attention = gemma_attention(f);
  attention.cap = 0;  // of final logits alone, whatever attn_logit_softcapping says
  attention.head_norm = Attention::HeadNorm::each;
  attention.query_norm.one_plus = true;
  attention.around = AttendOp::Around::span;  // a picture's rows
  std::int64_t window = f.integer_or({"sliding_window", "attention.sliding_window"}, 4096);
  const bool both_ways =
      f.flag_or({"use_bidirectional_attention"}, false) || f.path({"", "block_count"}).starts_with("gemma-embedding.");
  if (both_ways && window > 0) window = window / 2 + 1;  // so many positions each way, its own among them
  const int every = std::max(1, f.count_or({"sliding_window_pattern|_sliding_window_pattern"}, 6));
  const bool both = f.at({"rope_parameters"}).has({"sliding_attention"});
  const RopeSpec full =
      rope_of(f, {.head_dim = attention.head_dim, .theta = 1e6, .layer_type = both ? "full_attention" : ""});
  const RopeSpec local = both ? rope_of(f, {.head_dim = attention.head_dim, .layer_type = "sliding_attention"})
                              : rope_of(f, {.head_dim = attention.head_dim,
                                            .theta = f.number_or({"rope_local_base_freq", "rope.freq_base_swa"}, 10000,
                                                                 {.low = 0, .above_low = true}),
                                            .scaled = false,
                                            .own_theta = true});
  ModelSpec spec = gemma_decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", (layer + 1) % every != 0);
    attention.visibility = Visibility::window(slides ? window : 0);
    attention.rope = slides ? local : full;
    return sandwich(attention, gemma_mlp(f));
  });
  spec.both_ways = both_ways;
  if (both_ways) spec.usual_pooling = Pooling::mean;
  return spec;
}

}  // namespace espalier
