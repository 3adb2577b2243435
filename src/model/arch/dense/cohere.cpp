// Cohere (Command R): attention and MLP side by side behind one LayerNorm without bias, neighbours turn together.
// Cohere2: windows with rotation, every fourth layer sees all without positions. Cohere2-MoE: experts instead of MLPs.
// Source: Command R and Command A model cards; transformers' CohereModel.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"

namespace espalier {
namespace {

Attention cohere_attention(const Fields& f) {
  Attention a = grouped_attention(f);
  a.pairs = true;
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  return a;
}

ModelSpec cohere_decoder(const Fields& f, const std::function<Layer(int)>& layer) {
  ModelSpec spec = decoder(f, layer);
  spec.norm.kind = NormOp::Kind::layer;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.logit_scale = static_cast<float>(f.number_or({"logit_scale", "logit_scale"}, 0.0625));
  return spec;
}

// Which layers have a window, and turn.
bool cohere_slides(const Fields& f, int layer) {
  const int every = std::max(1, f.count_or({"sliding_window_pattern|_sliding_window_pattern"}, 4));
  return layer_is(f, layer, "sliding_attention", (layer + 1) % every != 0);
}

void let_slide(const Fields& f, int layer, const std::optional<RopeSpec>& rope, Attention& a) {
  const bool window = cohere_slides(f, layer);
  a.visibility =
      window ? Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 4096)) : Visibility();
  a.rope = window ? rope : std::nullopt;
}

}  // namespace

ModelSpec cohere(const Fields& f) {
  Attention attention = cohere_attention(f);
  attention.head_norm_may_lack = true;
  if (f.flag_or({"use_qk_norm"}, f.is_gguf())) {
    attention.head_norm = Attention::HeadNorm::each_own;
    attention.query_norm.kind = NormOp::Kind::layer;
  }
  return cohere_decoder(f, [&](int) { return parallel(attention, gated_mlp(f)); });
}

// Experts beside attention, their sum with a shared one's halved; some files have RMS norms.
ModelSpec cohere2_moe(const Fields& f) {
  Attention attention = cohere_attention(f);
  const auto rope = attention.rope;
  Experts experts = deepseek_experts(f, {.sigmoid = f.is_gguf(), .corrected = false});
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

ModelSpec cohere2(const Fields& f) {
  Attention attention = cohere_attention(f);
  const auto rope = attention.rope;
  return cohere_decoder(f, [&](int layer) {
    let_slide(f, layer, rope, attention);
    return parallel(attention, gated_mlp(f));
  });
}

}  // namespace espalier
