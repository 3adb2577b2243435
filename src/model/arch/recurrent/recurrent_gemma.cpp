// RecurrentGemma (Griffin): two of three layers have a gated sum that fades in place of attention, whose window is
// short. Source: Griffin (arXiv 2402.19427); transformers' RecurrentGemmaModel.
#include <cmath>

#include "model/arch/families.h"
#include "model/blocks/recurrent/gated_sum.h"
#include "tensor/dtype.h"

namespace espalier {

ModelSpec recurrent_gemma(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
  attention.qkv_bias = f.flag_or({"attention_bias"}, false);
  attention.out_bias = true;
  attention.visibility = Visibility::window(f.integer_or({"attention_window_size|sliding_window"}, 2048, 1));
  Mlp mlp;
  mlp.inner = std::max(1, f.count({"intermediate_size"}, ConfigLimits::inner) / 2);
  mlp.how.activation.kind = activation_of(f, "gelu_pytorch_tanh");
  mlp.bias = true;
  GatedSum sum;
  sum.width = static_cast<int>(f.integer_or({"lru_width"}, hidden_size(f), 1, ConfigLimits::inner));
  sum.heads = attention.heads;
  sum.taps = taps_of(f, {"conv1d_width"}, 4);
  sum.activation = mlp.how.activation.kind;
  if (sum.width % sum.heads != 0)
    f.refuse({"lru_width"}, "lru_width must be a multiple of num_attention_heads, as its gates have a matrix a head");
  const Json* types = f.find({"block_types"});
  const int period = types != nullptr && types->is_array() && !types->empty() ? static_cast<int>(types->size()) : 3;
  ModelSpec spec = decoder(f, [&](int layer) {
    const int of = layer % period;
    const bool attends = f.word_of({"block_types"}, of, of == 2 ? "attention" : "recurrent") == "attention";
    return pre_norm(attends ? Block(attention) : Block(sum), mlp);
  });
  spec.norm.one_plus = true;
  spec.embedding_scale = to_float(to_bf16(std::sqrt(static_cast<float>(spec.hidden))));  // so rounded it was trained
  spec.logit_cap = static_cast<float>(f.number_or({"logits_soft_cap"}, 30, {.low = 0}));
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = {{"output_norm", "model.final_norm"},
                   {"attn_norm", "temporal_pre_norm"},
                   {"attn_q", "temporal_block.q_proj"},
                   {"attn_k", "temporal_block.k_proj"},
                   {"attn_v", "temporal_block.v_proj"},
                   {"attn_output", "temporal_block.o_proj"},
                   {"sum_gate", "temporal_block.linear_y"},
                   {"sum_in", "temporal_block.linear_x"},
                   {"sum_out", "temporal_block.linear_out"},
                   {"sum_conv1d", "temporal_block.conv_1d"},
                   {"sum_rate", "temporal_block.rg_lru.recurrent_param"},
                   {"sum_input_gate", "temporal_block.rg_lru.input_gate"},
                   {"sum_decay_gate", "temporal_block.rg_lru.recurrent_gate"},
                   {"ffn_norm", "channel_pre_norm"},
                   {"ffn_gate", "mlp_block.gate_proj"},
                   {"ffn_up", "mlp_block.up_proj"},
                   {"ffn_down", "mlp_block.down_proj"}};
  return spec;
}

}  // namespace espalier
