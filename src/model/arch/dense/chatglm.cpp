// ChatGLM: half of each head turns by neighbours, one tensor of query, key and value.
// Source: the published configurations and tensors; llama.cpp for its files.
#include <algorithm>

#include "model/arch/families.h"

namespace espalier {

ModelSpec chatglm(const Fields& f) {
  Attention attention = attention_heads(f);
  if (f.flag_or({"multi_query_attention"}, false))
    attention.kv_heads = std::max(1, f.count_or({"multi_query_group_num"}, 2, attention.heads));
  if (attention.heads % attention.kv_heads != 0)
    f.refuse({"multi_query_group_num"}, "multi_query_group_num must divide num_attention_heads");
  const double ratio = f.number_or({"rope_ratio"}, 1, {.low = 0, .high = 1e9, .above_low = true});
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 10000 * ratio, .part = 0.5});
  attention.pairs = true;
  attention.fused = FusedQkv::side_by_side;
  const bool all = f.flag_or({"add_bias_linear"}, false);
  attention.out_bias = all;
  attention.qkv_bias = all || f.flag_or({"add_qkv_bias"}, true);
  Mlp mlp;
  mlp.inner = f.count({"ffn_hidden_size|intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.fused = true;
  mlp.bias = all;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  if (!f.flag_or({"rmsnorm"}, true))
    f.refuse({"rmsnorm"}, "rmsnorm is false, but ChatGLM is supported with RMS norms only");
  if (f.flag_or({"apply_residual_connection_post_layernorm"}, false))
    for (Layer& layer : spec.layers)
      for (Half& half : layer.halves) half.keep_normed = true;
  spec.final_norm = f.flag_or({"post_layer_norm"}, true);
  spec.names.layer_prefix = "transformer.encoder.layers.{}.";
  spec.names.hf = {{"token_embd", "transformer.embedding.word_embeddings"},
                   {"output_norm", "transformer.encoder.final_layernorm"},
                   {"output", "transformer.output_layer"},
                   {"attn_qkv", "self_attention.query_key_value"},
                   {"attn_output", "self_attention.dense"},
                   {"ffn_gate_up", "mlp.dense_h_to_4h"},
                   {"ffn_down", "mlp.dense_4h_to_h"}};
  return spec;
}

}  // namespace espalier
