// Mixtures of 2026 whose layers turn only where they have a window: Kolibri 1 (norms around both halves), Flint (sinks),
// Lara Mini (gated delta nets beside them), Beam (gated attention, sums that shrink with depth).
// Source: transformers' classes of these names.
#include <cmath>

#include "model/arch/experts/routed.h"
#include "model/arch/families.h"

namespace espalier {
namespace {

// Heads with norms; a window and rotation, or neither.
Attention window_attention(const Fields& f, int layer, bool slides_otherwise, int window) {
  Attention a = grouped_attention(f);
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.head_norm = Attention::HeadNorm::each;
  if (layer_is(f, layer, "sliding_attention", slides_otherwise))
    a.visibility = Visibility::window(f.integer_or({"sliding_window"}, window, 1));
  else
    a.rope.reset();
  return a;
}

Experts with_shared(const Fields& f, int shared_inner) {
  Experts e = qwen_experts(f);
  e.shared_inner = f.count_or({"shared_expert_intermediate_size"}, shared_inner, ConfigLimits::inner);
  return e;
}

const std::vector<Names::Entry> kSharedExpert = {{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                                 {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                                 {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};

}  // namespace

ModelSpec kolibri1(const Fields& f) {
  Experts experts = with_shared(f, 512);
  experts.router.scores = RouterSpec::Scores::sigmoid_of_chosen;
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, false);
  experts.correction = true;
  const bool windows = !f.says_null({"sliding_window"});
  ModelSpec spec = decoder(f, [&](int layer) {
    Attention attention = windows ? window_attention(f, layer, (layer + 1) % 5 != 0, 513) : grouped_attention(f);
    attention.head_norm = Attention::HeadNorm::each;
    attention.qkv_bias = attention.out_bias = false;
    return sandwich(attention, experts);
  });
  spec.names.hf = {{"post_attention_norm", "post_self_attn_layernorm|post_attn_norm"},
                   {"post_ffw_norm", "post_mlp_layernorm|post_ffn_norm"},
                   {"exp_probs_b", "mlp.gate.e_score_correction_bias|moe.router.expert_bias"}};
  return spec;
}

ModelSpec flint(const Fields& f) {
  Experts experts = with_shared(f, 1024);
  experts.router.scores = RouterSpec::Scores::sigmoid;
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, true);
  const int layers = layer_count(f);
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool full = layer < 2 || layer % 4 == 1 || layer == layers - 1;
    Attention attention = window_attention(f, layer, !full, 513);
    attention.sinks = true;
    const bool dense = f.has({"mlp_only_layers"}) ? qwen_layer_is_dense(f, layer) : layer < 2;
    return pre_norm(attention, dense ? Block(gated_mlp(f)) : Block(experts));
  });
  spec.names.hf = kSharedExpert;
  spec.names.hf.push_back({"attn_sinks", "self_attn.sinks|self_attn.softmax_offset"});
  return spec;
}

// Checkpoints keep all that a delta net's product gives in one matrix.
ModelSpec lara_mini(const Fields& f) {
  DeltaRule delta = delta_net(f);
  delta.stored = DeltaRule::Stored::in_one;
  Experts experts = with_shared(f, 512);
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, true);
  constexpr bool kRecurs[] = {true, false, true, false, false}, kSlides[] = {false, true, false, false, true};
  ModelSpec spec = decoder(f, [&](int layer) {
    if (layer_is(f, layer, "linear_attention", kRecurs[layer % 5])) return pre_norm(delta, experts);
    return pre_norm(window_attention(f, layer, kSlides[layer % 5], 512), experts);
  });
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = qwen_next_names();
  spec.names.hf.push_back({"ssm_in_all", "linear_attn.in_proj"});
  for (Names::Entry& entry : spec.names.hf)
    if (entry.role == "ssm_norm") entry.name = "linear_attn.out_norm|linear_attn.norm";
  return spec;
}

static Attention beam_attention(const Fields& f, int layer) {
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
