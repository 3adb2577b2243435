// CWM: Llama with windows. Source: CWM model card; transformers' CwmModel.
#include "model/arch/families.h"

namespace espalier {

ModelSpec cwm(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 1e6});
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  const std::int64_t window = f.says_null({"sliding_window"}) ? 0 : f.integer_or({"sliding_window"}, 8192);
  return decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(layer_is(f, layer, "sliding_attention", layer % 4 != 0) ? window : 0);
    return pre_norm(attention, mlp);
  });
}

}  // namespace espalier
