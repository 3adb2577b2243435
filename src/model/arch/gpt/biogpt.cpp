// BioGPT: OPT with scaled embeddings and GELU. Source: model cards and transformers' class of this name.
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"
#include "model/program/builder.h"

namespace espalier {

// Its norms have PyTorch's eps, whatever layer_norm_eps says.
ModelSpec biogpt(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = true;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gpt_mlp(f, "gelu")); });
  spec.norm = {NormOp::Kind::layer, 1e-5f, true, true};
  learned_positions(f, spec);
  spec.first_position = 2;
  spec.positions += 2;
  if (f.flag_or({"scale_embedding"}, true)) spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "biogpt.layers.{}.";
  spec.names.hf = {{"token_embd", "biogpt.embed_tokens"},
                   {"position_embd", "biogpt.embed_positions"},
                   {"output_norm", "biogpt.layer_norm"},
                   {"output", "output_projection"},
                   {"attn_norm", "self_attn_layer_norm"},
                   {"ffn_norm", "final_layer_norm"},
                   {"attn_output", "self_attn.out_proj"},
                   {"ffn_up", "fc1"},
                   {"ffn_down", "fc2"}};
  return spec;
}

}  // namespace espalier
