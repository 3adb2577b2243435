// GPT-Neo: every second layer with a window, scores not scaled. Source: model card; transformers' GPTNeoModel.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {
namespace {

// attention_types: [[["global", "local"], 12]] repeats these two twelve times.
bool is_local(const Fields& f, int layer) {
  const Json* groups = f.find({"attention_types"});
  if (groups == nullptr || !groups->is_array()) return layer % 2 == 1;
  for (const Json& group : *groups) {
    if (!group.is_array() || group.size() != 2 || !group[0].is_array() || group[0].empty() ||
        !group[1].is_number_integer())
      break;
    const auto each = static_cast<int>(group[0].size());
    const auto count = group[1].get<std::int64_t>() * each;
    if (layer < count) return group[0][static_cast<std::size_t>(layer % each)] == "local";
    layer -= static_cast<int>(count);
  }
  f.refuse({"attention_types"},
           "attention_types must be a list of [[kinds of layers], repetitions] that covers all layers");
  return false;
}

}  // namespace

ModelSpec gpt_neo(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.out_bias = true;
  attention.scale = 1.0f;
  ModelSpec spec = decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(is_local(f, layer) ? f.integer_or({"window_size"}, 256) : 0);
    return pre_norm(attention, gpt_mlp(f, "gelu_new"));
  });
  layer_norms(f, spec);
  learned_positions(f, spec);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"},
                   {"position_embd", "transformer.wpe"},
                   {"output_norm", "transformer.ln_f"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_q", "attn.attention.q_proj"},
                   {"attn_k", "attn.attention.k_proj"},
                   {"attn_v", "attn.attention.v_proj"},
                   {"attn_output", "attn.attention.out_proj"},
                   {"ffn_up", "mlp.c_fc"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

}  // namespace espalier
