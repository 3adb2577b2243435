// Mellum 2: windows with a rotation of their own, experts. Source: model card; transformers' MellumModel.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec mellum(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.head_norm = Attention::HeadNorm::each;
  Experts experts = experts_of(f);
  experts.router.renormalise = f.flag_or({"norm_topk_prob", "expert_weights_norm"}, true);
  const bool apart = f.at({"rope_parameters"}).has({"sliding_attention"});
  return decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", false);
    attention.visibility =
        Visibility::window(slides ? f.integer_or({"sliding_window", "attention.sliding_window"}, 1024) : 0);
    RopeWish wish{.head_dim = attention.head_dim, .part = 1};
    if (apart) wish.layer_type = slides ? "sliding_attention" : "full_attention";
    attention.rope = rope_of(f, wish);
    return pre_norm(attention, is_dense_layer(f, layer, 0) ? Block(gated_mlp(f)) : Block(experts));
  });
}

}  // namespace espalier
