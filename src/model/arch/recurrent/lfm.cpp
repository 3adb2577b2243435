// LFM2: gated short convolutions, attention in some layers. LFM2-MoE: experts behind the first layers. LFM3: norms
// behind each half too, gated attention, part of it with a window. Source: LFM2 (arXiv 2511.23404); transformers.
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/blocks/recurrent/short_conv.h"

namespace espalier {
namespace {

std::vector<Names::Entry> lfm_names() {
  return {{"output_norm", "model.embedding_norm"},
          {"attn_norm", "operator_norm"},
          {"ffn_norm", "ffn_norm"},
          {"attn_output", "self_attn.out_proj"},
          {"attn_q_norm", "self_attn.q_layernorm"},
          {"attn_k_norm", "self_attn.k_layernorm"},
          {"shortconv.in_proj", "conv.in_proj"},
          {"shortconv.conv", "conv.conv"},
          {"shortconv.out_proj", "conv.out_proj"},
          {"ffn_gate", "feed_forward.w1"},
          {"ffn_down", "feed_forward.w2"},
          {"ffn_up", "feed_forward.w3"},
          {"ffn_gate_inp", "feed_forward.gate"},
          {"exp_probs_b", "feed_forward.expert_bias"},
          {"ffn_exps", "feed_forward.experts"}};
}

bool lfm_attends(const Fields& f, int layer) {
  if (f.is_gguf()) return has_key_heads(f, layer);
  if (f.has({"layer_types"})) return f.word_of({"layer_types"}, layer, "conv") != "conv";
  return !f.has({"full_attn_idxs"}) || f.lists({"full_attn_idxs"}, layer);
}

Block lfm2_mixer(const Fields& f, int layer) {
  if (!lfm_attends(f, layer)) {
    ShortConv conv;
    conv.taps = taps_of(f, {"conv_L_cache", "shortconv.l_cache"}, 3);
    conv.bias = f.flag_or({"conv_bias"}, false);
    return conv;
  }
  Attention attention = attention_heads(f, layer);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 1e6});
  attention.head_norm = Attention::HeadNorm::each;
  return attention;
}

// The width that LFM2's checkpoints mean: two thirds of it, times a factor, in whole multiples.
int adjusted(const Fields& f, int inner) {
  if (f.is_gguf() || !f.flag_or({"block_auto_adjust_ff_dim"}, true)) return inner;
  const double factor = f.number_or({"block_ffn_dim_multiplier"}, 1, {.low = 0, .high = 16, .above_low = true});
  const std::int64_t multiple = f.integer_or({"block_multiple_of"}, 256, 1, ConfigLimits::inner);
  const auto wanted = static_cast<std::int64_t>(factor * static_cast<double>(2 * std::int64_t{inner} / 3));
  return static_cast<int>((wanted + multiple - 1) / multiple * multiple);
}

Mlp lfm_mlp(const Fields& f) {
  Mlp mlp;
  mlp.inner = f.count({"block_ff_dim|intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  return mlp;
}

ModelSpec lfm(const Fields& f, const std::function<Layer(int layer)>& layer) {
  ModelSpec spec = decoder(f, layer);
  spec.norm.eps = static_cast<float>(f.number_or(
      {"norm_eps|rms_norm_eps|block_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-5, {.low = 0, .high = 1}));
  spec.tied_head = f.flag_or({"tie_embedding|tie_word_embeddings"}, true);
  spec.names.hf = lfm_names();
  spec.names.gguf = {{"output_norm", "token_embd_norm"}};
  return spec;
}

Experts lfm_experts(const Fields& f) {
  Experts e = experts_of(f);
  e.inner = f.count({"moe_intermediate_size", "expert_feed_forward_length"}, ConfigLimits::inner);
  e.how = {};
  e.router.scores = RouterSpec::Scores::sigmoid;
  e.correction = f.flag_or({"use_expert_bias"}, true);
  e.router.renormalise = f.flag_or({"norm_topk_prob", "expert_weights_norm"}, true);
  e.router.renormalise_eps = 1e-6f;
  e.router.scale = static_cast<float>(f.number_or({"routed_scaling_factor", "expert_weights_scale"}, 1));
  e.gate = "w1";
  e.down = "w2";
  e.up = "w3";
  return e;
}

}  // namespace

ModelSpec lfm2(const Fields& f) {
  Mlp mlp = lfm_mlp(f);
  mlp.inner = adjusted(f, mlp.inner);
  return lfm(f, [&](int layer) { return pre_norm(lfm2_mixer(f, layer), mlp); });
}

ModelSpec lfm2_moe(const Fields& f) {
  const Mlp mlp = lfm_mlp(f);
  const Experts experts = lfm_experts(f);
  const int dense = f.count_or({"num_dense_layers", "leading_dense_block_count"}, 2, ConfigLimits::layers);
  return lfm(f, [&](int layer) { return pre_norm(lfm2_mixer(f, layer), layer < dense ? Block(mlp) : Block(experts)); });
}

ModelSpec lfm3(const Fields& f) {
  Attention attention = grouped_attention(f, -1, "full_attention");
  attention.head_norm = Attention::HeadNorm::each;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  if (f.flag_or({"use_attention_gate"}, true)) attention.gate = Attention::Gate::own_by_head;
  ShortConv conv;
  conv.taps = taps_of(f, {"conv_L_cache"}, 7);
  conv.bias = f.flag_or({"conv_bias"}, false);
  const bool both = f.flag_or({"use_sandwich_norm"}, true);
  ModelSpec spec = lfm(f, [&](int layer) {
    const std::string otherwise = layer % 4 == 2                ? "full_attention"
                                  : layer % 4 == 0 && layer > 0 ? "sliding_attention"
                                                                : "conv";
    const std::string type = f.word_of({"layer_types"}, layer, otherwise);
    const bool slides = type == "sliding_attention";
    attention.visibility = Visibility::window(slides ? f.integer_or({"sliding_window"}, 256) : 0);
    attention.rope = rope_of(f, {.head_dim = attention.head_dim,
                                 .theta = slides ? 1e4 : 1e6,
                                 .layer_type = slides ? "sliding_attention" : "full_attention"});
    const Block mixer = type == "conv" ? Block(conv) : Block(attention);
    return both ? sandwich(mixer, lfm_mlp(f)) : pre_norm(mixer, lfm_mlp(f));
  });
  for (Names::Entry& entry : spec.names.hf) {
    if (entry.role == "attn_output") entry.name = "self_attn.o_proj";
    if (entry.role == "attn_q_norm") entry.name = "self_attn.q_norm";
    if (entry.role == "attn_k_norm") entry.name = "self_attn.k_norm";
  }
  spec.names.hf.push_back({"attn_gate", "self_attn.gate_proj"});
  spec.names.hf.push_back({"post_attention_norm", "post_operator_norm"});
  spec.names.hf.push_back({"post_ffw_norm", "post_ffn_norm"});
  return spec;
}

}  // namespace espalier
