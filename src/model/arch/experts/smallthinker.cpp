// SmallThinker: experts with relu gates, chosen by the row that attention has not read yet; every fourth layer sees all
// and does not turn, the others have windows. Source: SmallThinker (arXiv 2507.20984); llama.cpp.
#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {

ModelSpec smallthinker(const Fields& f) {
  const Attention like = grouped_attention(f);
  Experts experts;
  experts.router.count = f.count({"moe_num_primary_experts", "expert_count"}, ConfigLimits::experts);
  experts.router.chosen = f.count({"moe_num_active_primary_experts", "expert_used_count"}, experts.router.count);
  const bool softmax = f.is_gguf() ? f.count_or({"", "expert_gating_func"}, 1) != 2
                                   : f.flag_or({"moe_primary_router_apply_softmax"}, false);
  experts.router.scores = softmax ? RouterSpec::Scores::softmax : RouterSpec::Scores::sigmoid;
  experts.router.renormalise = true;
  experts.inner =
      f.count({"moe_ffn_hidden_size", "expert_feed_forward_length|feed_forward_length"}, ConfigLimits::inner);
  experts.how.activation.kind = ActivationKind::relu;
  experts.gate = "gate";
  experts.up = "up";
  experts.down = "down";
  const std::int64_t window = f.integer_or({"sliding_window_size", "attention.sliding_window"}, 0);
  if (f.flag_or({"moe_enable_secondary_experts"}, false))
    f.refuse({"moe_enable_secondary_experts"}, "moe_enable_secondary_experts must be false here");
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool fourth = layer % 4 == 0;
    if (f.count_of({"moe_layer_layout"}, layer, 1) == 0)
      f.refuse({"moe_layer_layout"}, "moe_layer_layout has a layer without experts, which is not supported here");
    const bool slides = f.is_gguf() ? window > 0 && layer_is(f, layer, "sliding_attention", !fourth)
                                    : f.count_of({"sliding_window_layout"}, layer, 0) != 0;
    const bool turns = f.is_gguf() ? window == 0 || !fourth : f.count_of({"rope_layout"}, layer, 1) != 0;
    Attention attention = like;
    attention.visibility = Visibility::window(slides ? window : 0);
    if (!turns) attention.rope.reset();
    Layer made;
    made.body = [=](Builder& b, Rows x) {
      const Rows routed = experts.route(b, x);
      b.add(x, attention(b, b.norm(x, b.spec().norm, "attn_norm")));
      b.add(x, experts.apply(b, b.norm(x, b.spec().norm, "ffn_norm"), routed));
      return x;
    };
    return made;
  });
  spec.names.hf = {{"ffn_gate_inp", "block_sparse_moe.primary_router"}, {"ffn_exps", "block_sparse_moe.experts"}};
  return spec;
}

}  // namespace espalier
