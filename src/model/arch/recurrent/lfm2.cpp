// LFM2: gated short convolutions, attention in some layers. LFM2-MoE: experts behind the first layers.
// Source: LFM2 (arXiv 2511.23404); transformers' Lfm2Model and Lfm2MoeModel.
#include "model/arch/families.h"
#include "model/arch/recurrent/lfm.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/blocks/channels/experts.h"
#include "model/blocks/recurrent/short_conv.h"

namespace espalier {
namespace {

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
  const std::int64_t thirds = 2 * std::int64_t{inner} / 3;
  const auto wanted = static_cast<std::int64_t>(factor * static_cast<double>(thirds));
  return static_cast<int>((wanted + multiple - 1) / multiple * multiple);
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
  return lfm_decoder(f, [&](int layer) { return pre_norm(lfm2_mixer(f, layer), mlp); });
}

ModelSpec lfm2_moe(const Fields& f) {
  const Mlp mlp = lfm_mlp(f);
  const Experts experts = lfm_experts(f);
  const int dense = f.count_or({"num_dense_layers", "leading_dense_block_count"}, 2, ConfigLimits::layers);
  return lfm_decoder(
      f, [&](int layer) { return pre_norm(lfm2_mixer(f, layer), layer < dense ? Block(mlp) : Block(experts)); });
}

}  // namespace espalier
