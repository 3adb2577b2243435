// Cohere2-MoE: experts beside attention, their sum with a shared one's halved; some files have RMS norms.
// Source: transformers' Cohere2MoeModel.
#include <algorithm>

#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/gpt/cohere.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec cohere2_moe(const Fields& f) {
  Attention attention = cohere_attention(f);
  const auto rope = attention.rope;
  Experts experts = deepseek_experts(f, {.sigmoid = f.is_gguf(), .corrected = false});
  if (!f.is_gguf()) {  // the class knows no moe_intermediate_size
    const int shared = experts.inner == 0 ? 0 : experts.shared_inner / experts.inner;
    experts.inner = f.count({"intermediate_size"}, ConfigLimits::inner);
    experts.shared_inner = shared * experts.inner;
  }
  const bool sigmoid = f.is_gguf() ? f.count_or({"", "expert_gating_func"}, 2) == 2
                                   : f.word_or({"expert_selection_fn"}, "softmax") == "sigmoid";
  experts.router.scores = sigmoid ? RouterSpec::Scores::sigmoid : RouterSpec::Scores::softmax_of_chosen;
  if (!sigmoid) experts.router.renormalise = false;
  const bool average =
      experts.shared_inner > 0 && f.word_or({"shared_expert_combination_strategy"}, "average") == "average";
  const int every_dense = std::max(1, f.count_or({"prefix_dense_sliding_window_pattern"}, 1));
  const int leading = f.count_or({"first_k_dense_replace"}, 0);
  const int every = std::max(1, f.count_or({"sliding_window_pattern"}, 4));
  ModelSpec spec = cohere_decoder(f, [&](int layer) {
    const bool dense = is_dense_layer(f, layer, 0);
    const bool otherwise = layer < leading ? (layer + 1) % every_dense != 0 : (layer - leading + 1) % every != 0;
    const bool window = layer_is(f, layer, "sliding_attention", otherwise);
    attention.visibility =
        Visibility::window(window ? f.integer_or({"sliding_window", "attention.sliding_window"}, 4096) : 0);
    attention.rope = window || (dense && every_dense == 1) ? rope : std::nullopt;
    Mlp mlp = gated_mlp(f);
    mlp.inner = f.count_or({"prefix_dense_intermediate_size"}, mlp.inner, ConfigLimits::inner);
    Layer made = parallel(attention, dense ? Block(mlp) : Block(experts));
    if (average && !dense) made.halves.back().scale = 0.5f;
    return made;
  });
  if (f.has({"rms_norm_eps", "attention.layer_norm_rms_epsilon"})) spec.norm.kind = NormOp::Kind::rms;
  return spec;
}

}  // namespace espalier
