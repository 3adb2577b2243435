// Spark 2.5: gates of heads, windows that turn by another part and base. Source: its model card; llama.cpp.
#include "model/arch/families.h"

namespace espalier {

ModelSpec spark2_5(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.fused = FusedQkv::side_by_side;
  attention.gate = Attention::Gate::own_by_head;
  Mlp mlp = gated_mlp(f);
  mlp.how.activation.kind = activation_of(f, "gelu");
  const int all = attention.head_dim;
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", false);
    RopeWish wish{.head_dim = all, .part = 1};
    if (f.is_gguf()) {
      const int dims = f.count_or({"", "rope.dimension_count"}, all, all);
      wish.dims = slides ? f.count_or({"", "rope.dimension_count_swa"}, dims, all) : dims;
      wish.theta = f.number_or({"", "rope.freq_base"}, 10000, {.low = 1});
      if (slides) wish.theta = f.number_or({"", "rope.freq_base_swa"}, wish.theta, {.low = 1});
      wish.own_theta = true;
    } else {
      wish.layer_type = slides ? "sliding_attention" : "full_attention";
    }
    attention.rope = rope_of(f, wish);
    attention.visibility =
        Visibility::window(slides ? f.integer_or({"sliding_window", "attention.sliding_window"}, 0) : 0);
    return pre_norm(attention, mlp);
  });
  spec.names.hf = {{"attn_qkv", "self_attn.q_k_v_proj"}, {"attn_gate", "self_attn.g_proj"}};
  return spec;
}

}  // namespace espalier
