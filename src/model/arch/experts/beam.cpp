// Beam: gated attention that turns only where it has a window, sums that shrink with depth.
// Source: transformers' BeamModel.
#include <cmath>

#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {
namespace {

Attention beam_attention(const Fields& f, int layer) {
  const int layers = layer_count(f);
  Attention a = attention_heads(f);
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.head_norm = Attention::HeadNorm::each;
  a.gate = Attention::Gate::own;
  a.gate_bias_by_head = true;
  const bool slides = layer_is(f, layer, "sliding_attention", (layer + 1) % 6 != 0 && layer + 1 < layers);
  if (slides) a.visibility = Visibility::window(f.integer_or({"sliding_window"}, 512));
  const std::string_view type = slides ? "sliding_attention" : "full_attention";
  const bool turns = f.has({"rope_parameters"}) ? f.at({"rope_parameters"}).has({type}) : slides;
  if (turns) {
    a.rope = rope_of(f, {.head_dim = a.head_dim, .layer_type = type});
  } else {
    a.query_scale.power = 0.1f;
    a.query_scale.period = 2048;
    a.query_scale.offset = 1;
  }
  return a;
}

}  // namespace

// Behind the n-th of all sums, the first of which is the embedding, all that was summed has the same weight.
ModelSpec beam(const Fields& f) {
  Experts experts = deepseek_experts(f, {});
  experts.router.scale = static_cast<float>(f.number_or({"routed_scaling_factor"}, 2.5));
  experts.shared_inner = 0;
  ModelSpec spec = decoder(f, [&](int layer) {
    Layer made = sandwich(beam_attention(f, layer), is_dense_layer(f, layer, 3) ? Block(gated_mlp(f)) : Block(experts));
    for (int i = 0; i < 2; ++i) {
      const double sums = 2.0 * (layer + 1) + i;
      made.halves[static_cast<std::size_t>(i)].scale = static_cast<float>(1 / std::sqrt(sums));
      made.halves[static_cast<std::size_t>(i)].keep = static_cast<float>(std::sqrt((sums - 1) / sums));
    }
    return made;
  });
  spec.logit_cap = f.says_null({"final_logit_softcapping"})
                       ? 0
                       : static_cast<float>(f.number_or({"final_logit_softcapping"}, 30, {.low = 0}));
  spec.names.hf = {{"post_attention_norm", "post_attention_layernorm"},
                   {"ffn_norm", "pre_feedforward_layernorm"},
                   {"post_ffw_norm", "post_feedforward_layernorm"},
                   {"attn_gate", "self_attn.gate_proj"},
                   {"attn_gate_bias", "self_attn.gate_bias"}};
  return spec;
}

}  // namespace espalier
