// NomicBERT: BERT with rotation in place of learned positions, a gated MLP and no biases but the norms'.
// Source: arXiv 2402.01613; transformers' NomicBertModel.
#include "model/arch/encoders/encoder_parts.h"
#include "model/arch/families.h"

namespace espalier {

ModelSpec nomic_bert(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope =
      rope_of(f, {.head_dim = attention.head_dim, .theta = f.number_or({"rotary_emb_base"}, 1000, {.low = 1})});
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = f.flag_or({"qkv_proj_bias"}, false);
  attention.out_bias = attention.qkv_bias;
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size|n_inner", "feed_forward_length"}, ConfigLimits::inner);
  mlp.bias = f.flag_or({"mlp_fc1_bias"}, false);
  if (f.word_or({"activation_function"}, "swiglu") != "swiglu")
    mlp.how.activation.kind = activation_in(f, {"activation_function"}, "silu");
  else
    mlp.how.activation.kind = activation_in(f, {"hidden_act"}, "silu");
  ModelSpec spec = encoder(f, [&](int) { return normed_sums(attention, mlp); });
  spec.token_types = f.count_or({"type_vocab_size"}, 2, 1 << 16);
  spec.names.layer_prefix = "encoder.layers.{}.";
  rename(spec.names, {{"token_embd_norm", "emb_ln"},
                      {"attn_qkv", "attn.Wqkv"},
                      {"attn_output", "attn.out_proj"},
                      {"attn_output_norm", "norm1"},
                      {"ffn_up", "mlp.fc11"},
                      {"ffn_gate", "mlp.fc12"},
                      {"ffn_down", "mlp.fc2"},
                      {"layer_output_norm", "norm2"}});
  return spec;
}

}  // namespace espalier
