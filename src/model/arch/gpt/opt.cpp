// OPT: learned positions from the second row on, ReLU. Source: OPT (arXiv 2205.01068); transformers' OPTModel.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// x = norm(x + half(x)) for both halves: the 350 million parameter OPT.
Layer norm_behind(const Attention& attention, const Mlp& mlp) {
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

ModelSpec opt(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"enable_bias"}, true);
  Mlp mlp = gpt_mlp(f, "relu");
  mlp.bias = attention.qkv_bias;
  const bool before = f.flag_or({"do_layer_norm_before"}, true);
  ModelSpec spec = decoder(f, [&](int) { return before ? pre_norm(attention, mlp) : norm_behind(attention, mlp); });
  const bool affine = f.flag_or({"layer_norm_elementwise_affine"}, true);
  spec.norm = {NormOp::Kind::layer, 1e-5f, affine, affine};
  spec.final_norm = before && !f.flag_or({"_remove_final_layer_norm"}, false);
  learned_positions(f, spec);
  spec.first_position = 2;
  spec.positions += 2;
  spec.embedding = f.count_or({"word_embed_proj_dim"}, 0, ConfigLimits::hidden);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "model.decoder.layers.{}.";
  spec.names.hf = {{"token_embd", "model.decoder.embed_tokens"},
                   {"position_embd", "model.decoder.embed_positions"},
                   {"output_norm", "model.decoder.final_layer_norm"},
                   {"project_in", "model.decoder.project_in"},
                   {"project_out", "model.decoder.project_out"},
                   {"attn_norm", "self_attn_layer_norm"},
                   {"ffn_norm", "final_layer_norm"},
                   {"attn_output", "self_attn.out_proj"},
                   {"ffn_up", "fc1"},
                   {"ffn_down", "fc2"}};
  return spec;
}

}  // namespace espalier
