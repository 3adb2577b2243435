// Maple: windows that turn, other layers without either; clamped gates. Source: its model card; llama.cpp.
#include "model/arch/families.h"

namespace espalier {

ModelSpec maple(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.head_norm = Attention::HeadNorm::each;
  const RopeSpec rope = rope_of(f, {.head_dim = attention.head_dim,
                                    .theta = f.number_or({"", "rope.freq_base_swa"}, 10000, {.low = 1}),
                                    .part = 1,
                                    .own_theta = f.has({"", "rope.freq_base_swa"})});
  Experts experts = experts_of(f);
  experts.router.renormalise = true;
  const std::int64_t window = f.integer_or({"sliding_window", "attention.sliding_window"}, 0, 1);
  if (f.count_or({"num_shared_experts"}, 0) != 0 || !f.flag_or({"norm_topk_prob"}, true))
    f.refuse({"num_shared_experts"}, "Maple is supported without shared experts and with norm_topk_prob only");
  return decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", true);
    attention.rope = slides ? std::optional(rope) : std::nullopt;
    attention.visibility = Visibility::window(slides ? window : 0);
    experts.how.gate_limit = experts.how.up_limit =
        static_cast<float>(f.number_of({"", "swiglu_clamp_exp"}, layer, 7, {.low = 0, .above_low = true}));
    return pre_norm(attention, experts);
  });
}

}  // namespace espalier
