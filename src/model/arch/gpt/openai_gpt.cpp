// GPT, the first: learned positions, a LayerNorm behind each sum. Source: the GPT report (2018); transformers' class of
// this name.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// x = norm(x + half(x)) for both halves.
Layer normed_sums(const Attention& attention, const Mlp& mlp) {
  Layer layer;
  layer.body = [attention, mlp](Builder& b, Rows x) {
    b.add(x, attention(b, x));
    const Rows middle = b.norm(x, b.spec().norm, "attn_norm");
    b.add(middle, mlp(b, middle));
    return b.norm(middle, b.spec().norm, "ffn_norm");
  };
  return layer;
}

}  // namespace

ModelSpec openai_gpt(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = true;
  attention.fused = FusedQkv::side_by_side;
  ActivationKind how = activation_in(f, {"afn"}, "gelu");
  if (how == ActivationKind::gelu_erf) how = ActivationKind::gelu_tanh;  // what this family calls gelu
  const Mlp mlp = gpt_mlp(4 * hidden_size(f), how, true);
  ModelSpec spec = decoder(f, [&](int) { return normed_sums(attention, mlp); });
  spec.norm = {NormOp::Kind::layer, static_cast<float>(f.number_or({"layer_norm_epsilon"}, 1e-5)), true, true};
  spec.final_norm = false;
  learned_positions(f, spec);
  spec.transposed = true;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.tokens_embed"},
                   {"position_embd", "transformer.positions_embed"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_qkv", "attn.c_attn"},
                   {"attn_output", "attn.c_proj"},
                   {"ffn_up", "mlp.c_fc"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

}  // namespace espalier
