// GPT-NeoX Japanese: GPT-NeoX whose layers have no biases but a tensor behind the last one's attention, and an MLP of so
// many times the width. Source: transformers' class of this name.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {

ModelSpec gpt_neox_japanese(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 1});
  attention.fused = FusedQkv::by_group;
  const int times = static_cast<int>(f.integer_or({"intermediate_multiple_size"}, 4, 1, 64));
  const Mlp mlp = gpt_mlp(times * hidden_size(f), activation_of(f, "gelu"), false);
  const int last = layer_count(f) - 1;
  ModelSpec spec = decoder(f, [&](int layer) {
    attention.out_bias_name = layer == last ? "attn_output_bias" : "";
    return pre_norm(attention, mlp);
  });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "gpt_neox_japanese.layers.{}.";
  spec.names.hf = {{"token_embd", "gpt_neox_japanese.embed_in"},
                   {"output_norm", "gpt_neox_japanese.final_layer_norm"},
                   {"output", "embed_out"},
                   {"attn_qkv", "attention.query_key_value"},
                   {"attn_output", "attention.dense"},
                   {"attn_output_bias", "attention.dense_bias"},
                   {"ffn_up", "mlp.dense_h_to_4h"},
                   {"ffn_down", "mlp.dense_4h_to_h"}};
  return spec;
}

}  // namespace espalier
