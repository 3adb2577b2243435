// Phi-3 and Phi-4: Llama with fused tensors and longrope. Source: Phi-3 technical report (arXiv 2404.14219).
#include "model/arch/families.h"

namespace espalier {

ModelSpec phi3(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 1});
  attention.fused = FusedQkv::side_by_side;
  attention.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 0));
  Mlp mlp = gated_mlp(f);
  mlp.fused = true;
  return decoder(f, [&](int) { return pre_norm(attention, mlp); });
}

}  // namespace espalier
