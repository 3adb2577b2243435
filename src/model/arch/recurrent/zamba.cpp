// Zamba: Mamba mixers, and below some of them one pair of attention and MLP whose tensors these layers share. Zamba 2:
// Mamba-2, several pairs in turn, adapters of each layer's own. Source: Zamba (arXiv 2405.16712), Zamba2 (arXiv
// 2411.15242); transformers' ZambaModel and Zamba2Model.
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/blocks/residual/shared_pair.h"
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

Attention zamba_attention(const Fields& f, int head_dim) {
  Attention a = attention_heads(f);
  a.head_dim = a.value_dim = head_dim;
  a.scale = 1.0f / std::sqrt(static_cast<float>(head_dim) / 2);
  if (std::int64_t{a.heads} * head_dim > ConfigLimits::attention_width)
    f.refuse({"num_attention_heads"}, "the heads of the shared attention are wider together than is possible here");
  return a;
}

// Layers of which is_hybrid says whether they have a pair: one of so many, in turn. stem: of the pair's HF names.
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
    b.remember("embedding", b.copy(x));
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

}  // namespace

ModelSpec zamba(const Fields& f) {
  Mamba1 mixer = mamba1_of(f);
  mixer.in_turns = true;
  mixer.heads = static_cast<int>(f.integer_or({"n_mamba_heads"}, 2, 1, ConfigLimits::heads));
  mixer.activation = activation_in(f, {"hidden_mamba_act"}, "silu");
  if (mixer.inner % mixer.heads != 0)
    f.refuse({"n_mamba_heads"}, "n_mamba_heads must divide mamba_expand times hidden_size");
  const int width = 2 * hidden_size(f), heads = attention_heads(f).heads;
  if (f.count_or({"attention_hidden_size"}, width) != width)
    f.refuse({"attention_hidden_size"}, "attention_hidden_size must be twice hidden_size");
  SharedPair pair;
  pair.attention =
      zamba_attention(f, f.count_or({"attention_head_dim"}, std::max(1, width / heads), ConfigLimits::head_dim));
  pair.mlp.inner = static_cast<int>(f.integer_or({"intermediate_size"}, 14848, 1, ConfigLimits::inner));
  pair.mlp.how.activation.kind = activation_of(f, "gelu");
  const std::int64_t period = f.integer_or({"attn_layer_period"}, 6, 1),
                     offset = f.integer_or({"attn_layer_offset"}, 4);
  ModelSpec spec = zamba_model(f, mixer, pair, 1, "shared_transf",
                               [&](int layer) { return layer == 2 || (layer > 2 && (layer - 3) % period == offset); });
  spec.names.hf.push_back({"ssm_dt", "mamba.dt_proj|mamba_decoder.mamba.dt_proj"});
  return spec;
}

ModelSpec zamba2(const Fields& f) {
  Mamba2 mixer = mamba2_of(f);
  const double expand = f.number_or({"mamba_expand"}, 2, {.low = 0, .high = 64, .above_low = true});
  mixer.head_dim = std::max(1, static_cast<int>(expand * hidden_size(f)) / mixer.heads);
  mixer.conv_bias = true;
  mixer.in_bias = mixer.out_bias = f.flag_or({"add_bias_linear"}, false);
  mixer.least_step = static_cast<float>(f.number_or({"time_step_min"}, 0.001, {.low = 0}));
  mixer.norm_eps = 1e-5f;
  const int heads = attention_heads(f).heads, inner = 4 * hidden_size(f);
  const int rank = static_cast<int>(f.integer_or({"adapter_rank"}, 128, 1, ConfigLimits::inner));
  SharedPair pair;
  pair.attention = zamba_attention(f, std::max(1, 2 * hidden_size(f) / heads));
  if (f.flag_or({"use_mem_rope"}, false)) pair.attention.rope = rope_of(f, {.head_dim = pair.attention.head_dim});
  if (f.flag_or({"use_shared_attention_adapter"}, false))
    pair.attention.adapters = {{"attn_q_lora_a", "attn_q_lora_b", rank},
                               {"attn_k_lora_a", "attn_k_lora_b", rank},
                               {"attn_v_lora_a", "attn_v_lora_b", rank}};
  pair.mlp.inner = static_cast<int>(f.integer_or({"intermediate_size"}, inner, 1, ConfigLimits::inner));
  pair.mlp.how.activation.kind = activation_of(f, "gelu");
  pair.mlp.fused = true;
  pair.mlp.bias = mixer.in_bias;
  pair.mlp.adapter = Adapter{"ffn_gate_up_lora_a", "ffn_gate_up_lora_b", rank};
  const int pairs = static_cast<int>(f.integer_or({"num_mem_blocks"}, 1, 1, ConfigLimits::layers));
  ModelSpec spec = zamba_model(f, mixer, pair, pairs, "shared_transformer", [](int layer) {
    return (layer > 0 && layer <= 42 && layer % 6 == 0) || layer == 47 || layer == 51;
  });
  spec.names.hf.push_back({"ssm_dt", "mamba.dt_bias|mamba_decoder.mamba.dt_bias"});
  return spec;
}

}  // namespace espalier
