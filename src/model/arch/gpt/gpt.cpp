// GPT-2: learned positions, matrices stored inputs first, LayerNorms and biases everywhere. GPT-NeoX (Pythia): a part of
// each head turns; attention and MLP side by side. Source: GPT-2 report; GPT-NeoX-20B (arXiv 2204.06745).
#include <cmath>

#include "model/arch/families.h"

namespace espalier {

ModelSpec gpt2(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.rope.reset();
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = attention.out_bias = true;
  Mlp mlp;
  mlp.inner = f.count_or({"n_inner", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, "gelu_new");
  mlp.gated = false;
  mlp.bias = true;
  const float scale =
      f.flag_or({"scale_attn_weights"}, true) ? 1.0f / std::sqrt(static_cast<float>(attention.head_dim)) : 1.0f;
  const bool by_layer = f.flag_or({"scale_attn_by_inverse_layer_idx"}, false);
  ModelSpec spec = decoder(f, [&](int layer) {
    attention.scale = by_layer ? scale / static_cast<float>(layer + 1) : scale;
    return pre_norm(attention, mlp);
  });
  spec.norm = {NormOp::Kind::layer,
               static_cast<float>(f.number_or({"layer_norm_epsilon", "attention.layer_norm_epsilon"}, 1e-5)), true,
               true};
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.transposed = true;
  spec.positions = f.count({"n_positions|max_position_embeddings", "context_length"}, 1 << 20);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
                   {"position_embd", "transformer.wpe"},
                   {"output_norm", "transformer.ln_f"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_qkv", "attn.c_attn"},
                   {"attn_output", "attn.c_proj"},
                   {"ffn_up", "mlp.c_fc"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

ModelSpec gpt_neox(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.25});
  attention.fused = FusedQkv::by_group;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, true);
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, "gelu");
  mlp.gated = false;
  mlp.bias = true;
  const bool beside = f.flag_or({"use_parallel_residual", "use_parallel_residual"}, true);
  ModelSpec spec = decoder(f, [&](int) {
    Layer layer = pre_norm(attention, mlp);
    layer.parallel = beside;
    return layer;
  });
  spec.norm.kind = NormOp::Kind::layer;
  spec.norm.bias = true;
  spec.names.layer_prefix = "gpt_neox.layers.{}.";
  spec.names.hf = {{"token_embd", "gpt_neox.embed_in"},
                   {"output_norm", "gpt_neox.final_layer_norm"},
                   {"output", "embed_out"},
                   {"attn_qkv", "attention.query_key_value"},
                   {"attn_output", "attention.dense"},
                   {"ffn_up", "mlp.dense_h_to_4h"},
                   {"ffn_down", "mlp.dense_4h_to_h"}};
  return spec;
}

}  // namespace espalier
