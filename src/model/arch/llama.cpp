// Llama, and what its relatives share: RMS norms before each half, rotary GQA attention, gated SiLU.
// Mistral is the same with a window. Source: Llama 2 and 3 reports; Mistral 7B report.
#include "model/arch/families.h"

namespace espalier {

ModelSpec llama(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.visibility = Visibility::window(f.is_gguf() ? f.integer_or({"", "attention.sliding_window"}, 0) : 0);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  return decoder(f, [&](int) { return pre_norm(attention, mlp); });
}

ModelSpec mistral(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 0));
  return decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
}

}  // namespace espalier
