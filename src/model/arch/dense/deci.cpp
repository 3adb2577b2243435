// DeciLM: layers without attention or MLP, or with one matrix instead.
// Source: the published configurations and tensors; llama.cpp for its files.
#include <algorithm>

#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {
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
