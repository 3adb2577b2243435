// Cohere (Command R): attention and MLP side by side behind one LayerNorm without bias, neighbours turn together.
// Cohere2: windows with rotation, every fourth layer sees all without positions. Cohere2-MoE: experts instead of MLPs.
// Source: Command R and Command A model cards; transformers' CohereModel.
#include "model/arch/families.h"
#include "model/blocks/experts.h"

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
bool slides(const Fields& f, int layer) {
  const int every = std::max(1, f.count_or({"sliding_window_pattern|_sliding_window_pattern"}, 4));
  return layer_is(f, layer, "sliding_attention", (layer + 1) % every != 0);
}

void let_slide(const Fields& f, int layer, const std::optional<RopeSpec>& rope, Attention& a) {
  const bool window = slides(f, layer);
  a.visibility = window ? Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 4096))
                        : Visibility();
  a.rope = window ? rope : std::nullopt;
}

}  // namespace

ModelSpec cohere(const Fields& f) {
  Attention attention = cohere_attention(f);
  if (f.flag_or({"use_qk_norm"}, false)) {
    attention.head_norm = Attention::HeadNorm::each_own;
    attention.query_norm.kind = NormOp::Kind::layer;
  }
  return cohere_decoder(f, [&](int) { return parallel(attention, gated_mlp(f)); });
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
