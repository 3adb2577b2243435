// gpt-oss: experts with a clamped gate and biases, sinks in attention, every second layer with a window.
// Source: gpt-oss model card (arXiv 2508.10925); transformers' GptOssModel.
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec gpt_oss(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 150000, .truncated = !f.is_gguf()});
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, true);
  attention.sinks = true;
  Experts experts;
  experts.router.count = f.count({"num_local_experts|num_experts", "expert_count"}, ConfigLimits::experts);
  experts.router.chosen = f.count({"num_experts_per_tok|experts_per_token", "expert_used_count"}, experts.router.count);
  experts.router.scores = RouterSpec::Scores::softmax_of_chosen;
  experts.router_bias = experts.bias = true;
  experts.inner = f.count({"intermediate_size", "expert_feed_forward_length"}, ConfigLimits::inner);
  const auto limit = static_cast<float>(f.number_or({"swiglu_limit"}, 7.0, {.low = 0, .above_low = true}));
  experts.how = {{ActivationKind::silu, static_cast<float>(f.number_or({"swiglu_alpha"}, 1.702))}, limit, limit, 1.0f};
  experts.fused = FusedExperts::by_turns;
  const std::int64_t window = f.integer_or({"sliding_window", "attention.sliding_window"}, 128);
  ModelSpec spec = decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(layer_is(f, layer, "sliding_attention", layer % 2 == 0) ? window : 0);
    return pre_norm(attention, experts);
  });
  spec.names.hf = {{"ffn_gate_inp", "mlp.router"}};
  spec.names.gguf = {{"ffn_norm", "post_attention_norm"}};
  return spec;
}

}  // namespace espalier
