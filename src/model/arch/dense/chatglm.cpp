// Families whose classes live beside their weights: ChatGLM (half of each head turns by neighbours, one tensor of query,
// key and value), InternLM 2 (one tensor of each KV head's queries, key and value), Baichuan (the small one turns, the
// large one has ALiBi), Qwen 1, DeciLM (layers without attention or MLP, or with one matrix instead).
// Source: the published configurations and tensors of each; llama.cpp for their files.
#include <algorithm>

#include "model/arch/families.h"
#include "model/program/builder.h"

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

ModelSpec internlm2(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.fused = FusedQkv::by_group;
  attention.qkv_bias = attention.out_bias = f.flag_or({"bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
  spec.names.hf = {{"token_embd", "model.tok_embeddings"}, {"output", "output"},
                   {"attn_norm", "attention_norm"},        {"ffn_norm", "ffn_norm"},
                   {"attn_qkv", "attention.wqkv"},         {"attn_output", "attention.wo"},
                   {"ffn_gate", "feed_forward.w1"},        {"ffn_up", "feed_forward.w3"},
                   {"ffn_down", "feed_forward.w2"}};
  return spec;
}

ModelSpec baichuan(const Fields& f) {
  Attention attention = attention_heads(f);
  const bool large = f.is_gguf() ? layer_count(f) == 40 : !f.has({"max_position_embeddings"});
  if (large)
    attention.slopes = alibi_slopes(attention.heads);
  else
    attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  attention.pairs_in_gguf = true;
  attention.fused = FusedQkv::side_by_side;
  if (!f.is_gguf() && f.count_or({"vocab_size"}, 0) == 125696)
    f.refuse({"vocab_size"},
             "checkpoints of Baichuan 2 norm their head as they run, which is not supported; GGUF files of it are");
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
  spec.names.hf = {{"attn_qkv", "self_attn.W_pack"}};
  return spec;
}

// Its configuration counts both matrices of the gated MLP.
ModelSpec qwen(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = true;
  attention.out_bias = !f.flag_or({"no_bias"}, true);
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner) / 2;
  mlp.bias = attention.out_bias;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
                   {"output_norm", "transformer.ln_f"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_qkv", "attn.c_attn"},
                   {"attn_output", "attn.c_proj"},
                   {"ffn_gate", "mlp.w2"},
                   {"ffn_up", "mlp.w1"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

namespace {

// One matrix in place of attention or an MLP.
Block one_matrix(std::string_view role, std::string_view in_gguf) {
  return [=](Builder& b, Rows x) { return b.matmul(x, {b.matrix(b.is_gguf() ? in_gguf : role, x.width, x.width)}); };
}

struct DeciPart {
  bool none = false, linear = false;
  int size = 0;  // KV heads, or the width of the MLP
};

DeciPart attention_part(const Fields& f, int layer, int heads) {
  if (f.is_gguf()) {
    const int own = f.count_of({"", "attention.head_count"}, layer, heads, heads);
    const int kv = f.count_of({"", "attention.head_count_kv"}, layer, own, heads);
    return {own == 0, own > 0 && kv == 0, kv};
  }
  if (!f.has({"block_configs"}))
    return {false, false, f.count_of({"num_key_value_heads_per_layer|num_key_value_heads"}, layer, heads, heads)};
  const Fields own = f.at_layer({"block_configs"}, layer).at({"attention"});
  const bool linear = own.flag_or({"replace_with_linear"}, false);
  const int group = own.count_or({"n_heads_in_group"}, 0, heads);
  return {group == 0 && !linear, linear, group > 0 ? heads / group : 0};
}

DeciPart mlp_part(const Fields& f, int layer, int hidden) {
  if (f.is_gguf()) {
    const int inner = f.count_of({"", "feed_forward_length"}, layer, 0, ConfigLimits::inner);
    return {inner == 0, false, inner};
  }
  if (!f.has({"block_configs"})) return {false, false, f.count({"intermediate_size"}, ConfigLimits::inner)};
  const Fields own = f.at_layer({"block_configs"}, layer).at({"ffn"});
  const auto inner = static_cast<int>(2 * own.number_or({"ffn_mult"}, 0, {.low = 0, .high = 64}) * hidden / 3);
  const bool linear = own.flag_or({"replace_with_linear"}, false);
  return {inner == 0 && !linear, linear, (inner + 255) / 256 * 256};
}

Attention deci_attention(const Fields& f, int heads, int kv_heads) {
  Attention a;
  a.heads = heads;
  a.kv_heads = std::max(1, kv_heads);
  a.head_dim = f.count_or({"head_dim", "attention.key_length|rope.dimension_count"},
                          std::max(1, hidden_size(f) / heads), ConfigLimits::head_dim);
  if (heads % a.kv_heads != 0 || std::int64_t{heads} * a.head_dim > ConfigLimits::attention_width)
    f.refuse({"block_configs", "attention.head_count_kv"}, "the KV heads of each layer must divide its heads");
  a.rope = rope_of(f, {.head_dim = a.head_dim});
  a.pairs_in_gguf = true;
  return a;
}

int deci_heads(const Fields& f) {
  if (!f.is_gguf()) return f.count({"num_attention_heads"}, ConfigLimits::heads);
  const FieldName name{"", "attention.head_count"};
  const Json* told = f.find(name);
  if (told == nullptr || !told->is_array()) return f.count(name, ConfigLimits::heads);
  std::int64_t most = 1;
  for (const std::int64_t heads : f.integers(name)) most = std::max(most, heads);
  return static_cast<int>(std::min(most, ConfigLimits::heads));
}

}  // namespace

ModelSpec deci(const Fields& f) {
  const int heads = deci_heads(f);
  ModelSpec spec = decoder(f, [&](int layer) {
    Layer made;
    const DeciPart first = attention_part(f, layer, heads), second = mlp_part(f, layer, hidden_size(f));
    if (first.linear) made.halves.push_back({one_matrix("attn_linear", "attn_output"), "attn_norm"});
    if (!first.linear && !first.none) made.halves.push_back({deci_attention(f, heads, first.size), "attn_norm"});
    Mlp mlp;
    mlp.inner = std::max(1, second.size);
    mlp.how.activation.kind = activation_of(f);
    if (second.linear) made.halves.push_back({one_matrix("ffn_linear", "ffn_down"), "ffn_norm"});
    if (!second.linear && !second.none) made.halves.push_back({mlp, "ffn_norm"});
    return made;
  });
  spec.names.hf = {{"attn_linear", "self_attn.linear_attn"}, {"ffn_linear", "mlp.linear_mlp"}};
  return spec;
}

}  // namespace espalier
