// dots.llm1: normed heads, DeepSeek's experts, windows in the upper layers. Source: dots.llm1 (arXiv 2506.05767);
// transformers' Dots1Model.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec dots1(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.head_norm = Attention::HeadNorm::each;
  const Experts experts = deepseek_experts(f, {.renormalise = false});
  const std::int64_t window = f.integer_or({"sliding_window"}, 4096), upper = f.integer_or({"max_window_layers"}, 62);
  return decoder(f, [&](int layer) {
    const bool slides =
        layer_is(f, layer, "sliding_attention", !f.is_gguf() && !f.says_null({"sliding_window"}) && layer >= upper);
    attention.visibility = Visibility::window(slides ? window : 0);
    return pre_norm(attention, is_dense_layer(f, layer, 0) ? Block(gated_mlp(f)) : Block(experts));
  });
}

}  // namespace espalier
