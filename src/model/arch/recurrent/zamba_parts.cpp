#include "model/arch/recurrent/zamba_parts.h"

#include <cmath>

#include "model/arch/recurrent/mamba_fields.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

constexpr std::pair<std::string_view, const char*> kPairNames[] = {
    {"shared_attn_norm", ".input_layernorm"},
    {"attn_q", ".self_attn.q_proj"},
    {"attn_k", ".self_attn.k_proj"},
    {"attn_v", ".self_attn.v_proj"},
    {"attn_output", ".self_attn.o_proj"},
    {"attn_q_lora_a", ".self_attn.linear_q_adapter_list.{}.0"},
    {"attn_q_lora_b", ".self_attn.linear_q_adapter_list.{}.1"},
    {"attn_k_lora_a", ".self_attn.linear_k_adapter_list.{}.0"},
    {"attn_k_lora_b", ".self_attn.linear_k_adapter_list.{}.1"},
    {"attn_v_lora_a", ".self_attn.linear_v_adapter_list.{}.0"},
    {"attn_v_lora_b", ".self_attn.linear_v_adapter_list.{}.1"},
    {"ffn_norm", ".pre_ff_layernorm"},
    {"ffn_gate", ".feed_forward.gate_proj"},
    {"ffn_up", ".feed_forward.up_proj"},
    {"ffn_gate_up", ".feed_forward.gate_up_proj"},
    {"ffn_gate_up_lora_a", ".feed_forward.gate_up_proj_adapter_list.{}.0"},
    {"ffn_gate_up_lora_b", ".feed_forward.gate_up_proj_adapter_list.{}.1"},
    {"ffn_down", ".feed_forward.down_proj"}};

}  // namespace

Attention zamba_attention(const Fields& f, int head_dim) {
  Attention a = attention_heads(f);
  a.head_dim = a.value_dim = head_dim;
  a.scale = 1.0f / std::sqrt(static_cast<float>(head_dim) / 2);
  if (std::int64_t{a.heads} * head_dim > ConfigLimits::attention_width)
    f.refuse({"num_attention_heads"}, "the heads of the shared attention are wider together than is possible here");
  return a;
}

ModelSpec zamba_model(const Fields& f, const Block& mixer, SharedPair pair, int pairs, const std::string& stem,
                      const std::function<bool(int)>& is_hybrid) {
  const FieldName types{"layers_block_type|layer_types"};
  std::vector<int> sources;
  ModelSpec spec = decoder(f, [&](int layer) {
    if (!(f.has(types) ? f.word_of(types, layer, "") == "hybrid" : is_hybrid(layer)))
      return Layer{{{mixer, "attn_norm"}}};
    if (pair.use < pairs) sources.push_back(layer);
    pair.source = sources[static_cast<std::size_t>(pair.use % pairs)];
    Layer hybrid = pair.below(mixer);
    ++pair.use;
    return hybrid;
  });
  spec.enter = [](Builder& b, Rows x) {
    b.named().put("embedding", b.copy(x));
    return x;
  };
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = {{"output_norm", "model.final_layernorm"},
                   {"attn_norm", "input_layernorm|mamba_decoder.input_layernorm"},
                   {"shared_out", "linear"}};
  for (const auto& [role, name] : kPairNames) spec.names.hf.push_back({role, stem + name});
  for (const auto& [role, name] : mamba_names("mamba"))
    spec.names.hf.push_back({role, name + "|mamba_decoder." + name});
  return spec;
}

}  // namespace espalier
