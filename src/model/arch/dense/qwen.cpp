// Qwen2: Llama with biases of q, k and v. Qwen3: query and key heads normed before rotation instead.
// Source: Qwen2 and Qwen3 technical reports.
#include "model/arch/families.h"

namespace espalier {

// A window only where use_sliding_window says so, in the upper layers unless layer_types tells.
Visibility qwen_window(const Fields& f, int layer) {
  if (f.is_gguf()) return Visibility::window(f.integer_or({"", "attention.sliding_window"}, 0));
  if (!f.flag_or({"use_sliding_window"}, false)) return {};
  const bool upper = layer >= f.integer_or({"max_window_layers"}, 28);
  const std::int64_t size = f.integer_or({"sliding_window"}, 0);
  return layer_is(f, layer, "sliding_attention", upper) ? Visibility::window(size) : Visibility{};
}

ModelSpec qwen2(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = true;
  return decoder(f, [&](int layer) {
    attention.visibility = qwen_window(f, layer);
    return pre_norm(attention, gated_mlp(f));
  });
}

ModelSpec qwen3(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.head_norm = Attention::HeadNorm::each;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  return decoder(f, [&](int layer) {
    attention.visibility = qwen_window(f, layer);
    return pre_norm(attention, gated_mlp(f));
  });
}

}  // namespace espalier
