// MiniMax-01: lightning attention in most layers, experts in all; what a layer adds to is its normed input.
// Source: MiniMax-01 (arXiv 2501.08313); transformers' MiniMaxModel.
#include <cmath>

#include "model/arch/families.h"
#include "model/blocks/recurrent/lightning_attention.h"

namespace espalier {
namespace {

// 1: softmax attention, 0: lightning (attn_type_list of published checkpoints).
bool minimax_attends(const Fields& f, int layer) {
  if (f.has({"attn_type_list"})) return f.count_of({"attn_type_list"}, layer, 0) == 1;
  return layer_is(f, layer, "full_attention", layer % 2 == 0);
}

LightningAttention lightning(const Fields& f, const Attention& like, int layer) {
  LightningAttention a{.heads = like.heads, .head_dim = like.head_dim, .activation = activation_of(f)};
  const double depth = static_cast<double>(layer) / (static_cast<double>(layer_count(f)) - 1 + 1e-5);
  for (int head = 0; head < a.heads; ++head) {
    const double slope = std::pow(2.0, -8.0 * (head + 1) / a.heads) * (1 - depth + 1e-5);
    a.decays.push_back(static_cast<float>(std::exp(-slope)));
  }
  return a;
}

// A half whose rows become keep * norm(rows) + scale * block(norm(rows)).
Half normed_half(const Fields& f, Block block, std::string_view norm, std::string_view keep, std::string_view scale) {
  Half half{std::move(block), norm};
  half.keep = static_cast<float>(f.number_or({keep}, 1));
  half.scale = static_cast<float>(f.number_or({scale}, 1));
  half.keep_normed = f.flag_or({"postnorm"}, true);
  return half;
}

}  // namespace

ModelSpec minimax(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.visibility = Visibility::window(f.integer_or({"sliding_window"}, 0));
  attention.rope =
      rope_of(f, {.head_dim = attention.head_dim, .theta = 1e6, .part = f.has({"rotary_dim"}) ? 1.0 : 0.0});
  Experts experts = experts_of(f);
  experts.router.renormalise = true;
  experts.gate = "w1";
  experts.down = "w2";
  experts.up = "w3";
  ModelSpec spec = decoder(f, [&](int layer) {
    Half mixer = minimax_attends(f, layer)
                     ? normed_half(f, attention, "attn_norm", "full_attn_alpha_factor|layernorm_full_attention_alpha",
                                   "full_attn_beta_factor|layernorm_full_attention_beta")
                     : normed_half(f, lightning(f, attention, layer), "attn_norm",
                                   "linear_attn_alpha_factor|layernorm_linear_attention_alpha",
                                   "linear_attn_beta_factor|layernorm_linear_attention_beta");
    return Layer{{std::move(mixer), normed_half(f, experts, "ffn_norm", "mlp_alpha_factor|layernorm_mlp_alpha",
                                                "mlp_beta_factor|layernorm_mlp_beta")}};
  });
  spec.names.hf = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                   {"ffn_exps", "block_sparse_moe.experts"},
                   {"attn_gate", "self_attn.output_gate"},
                   {"attn_sub_norm", "self_attn.norm"},
                   {"lightning_output", "self_attn.out_proj"}};
  return spec;
}

}  // namespace espalier
