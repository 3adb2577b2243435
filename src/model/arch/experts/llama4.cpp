// Llama 4: chunks of attention with rotation by neighbours and normed heads; every fourth layer sees all, without
// positions, its queries growing with theirs; experts whose weight scales their input beside a shared one.
// Source: Llama 4 model cards; transformers' Llama4TextModel; llama.cpp for what its files leave out.
#include <algorithm>

#include "model/arch/families.h"

namespace espalier {
namespace {

Experts llama4_experts(const Fields& f) {
  Experts e;
  e.router.count = f.count({"num_local_experts", "expert_count"}, ConfigLimits::experts);
  e.router.chosen = f.count({"num_experts_per_tok", "expert_used_count"}, e.router.count);
  e.router.scores = RouterSpec::Scores::sigmoid_of_chosen;
  e.inner = f.count({"intermediate_size", "expert_feed_forward_length"}, ConfigLimits::inner);
  e.how.activation.kind = activation_of(f);
  e.weight_inputs = true;
  e.fused = FusedExperts::turned;
  e.shared_inner = e.inner;
  return e;
}

bool llama4_has_experts(const Fields& f, int layer) {
  if (f.count_or({"num_local_experts", "expert_count"}, 0) == 0) return false;
  if (f.has({"moe_layers"})) return f.lists({"moe_layers"}, layer);
  const int every = f.count_or({"interleave_moe_layer_step", "interleave_moe_layer_step"}, 1);
  return every > 0 && (layer + 1) % every == 0;
}

bool turns(const Fields& f, int layer) {
  const int every = std::max(1, f.count_or({"no_rope_layer_interval"}, 4));
  const bool otherwise = (layer + 1) % every != 0;
  const Json* told = f.find({"no_rope_layers"});  // an empty list says nothing
  return told == nullptr || told->empty() ? otherwise : f.count_of({"no_rope_layers"}, layer, otherwise ? 1 : 0) != 0;
}

}  // namespace

ModelSpec llama4(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 500000});
  const auto rope = attention.rope;
  attention.pairs = attention.norm_behind_rope = true;
  attention.query_norm.gain = false;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  // Maverick, with 128 experts, has no norms; GGUF files do not say so.
  const bool normed = f.is_gguf() ? f.count_or({"", "expert_count"}, 0) != 128 : f.flag_or({"use_qk_norm"}, true);
  const std::int64_t chunk = f.says_null({"attention_chunk_size"}) ? 0 : f.integer_or({"attention_chunk_size"}, 8192);
  ScaleByPositionOp grows = {};
  grows.period = f.integer_or({"floor_scale"}, 8192, 1);
  grows.offset = 1;
  if (f.flag_or({"attn_temperature_tuning"}, true)) grows.beta = static_cast<float>(f.number_or({"attn_scale"}, 0.1));
  Mlp mlp = gated_mlp(f);
  if (!f.is_gguf()) mlp.inner = f.count({"intermediate_size_mlp"}, ConfigLimits::inner);
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool turning = turns(f, layer);
    attention.rope = turning ? rope : std::nullopt;
    attention.head_norm = turning && normed ? Attention::HeadNorm::each : Attention::HeadNorm::none;
    attention.query_scale = turning ? ScaleByPositionOp{} : grows;
    attention.visibility = layer_is(f, layer, "chunked_attention", turning) ? Visibility::chunk(chunk) : Visibility();
    return pre_norm(attention, llama4_has_experts(f, layer) ? Block(llama4_experts(f)) : Block(mlp));
  });
  spec.names.hf = {{"ffn_gate", "feed_forward.gate_proj"},
                   {"ffn_up", "feed_forward.up_proj"},
                   {"ffn_down", "feed_forward.down_proj"},
                   {"ffn_gate_inp", "feed_forward.router"},
                   {"ffn_exps", "feed_forward.experts"},
                   {"ffn_gate_shexp", "feed_forward.shared_expert.gate_proj"},
                   {"ffn_up_shexp", "feed_forward.shared_expert.up_proj"},
                   {"ffn_down_shexp", "feed_forward.shared_expert.down_proj"}};
  return spec;
}

}  // namespace espalier
