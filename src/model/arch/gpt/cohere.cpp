// Cohere (Command R): attention and MLP side by side behind one LayerNorm without bias, neighbours turn together.
// Cohere2: windows with rotation, every fourth layer sees all without positions.
// Source: Command R and Command A model cards; transformers' CohereModel.
#include <algorithm>

#include "model/arch/families.h"
#include "model/arch/gpt/cohere.h"

namespace espalier {
namespace {

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
  if (f.has({"vision_config"})) spec.logit_scale = 1;  // the class with a tower has none, whatever its file says
  return spec;
}

ModelSpec cohere(const Fields& f) {
  Attention attention = cohere_attention(f);
  attention.head_norm_may_lack = true;
  if (f.flag_or({"use_qk_norm"}, f.is_gguf())) {
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
