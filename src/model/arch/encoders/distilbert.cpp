// DistilBERT: BERT without types of tokens, under other names. Source: arXiv 1910.01108; transformers' DistilBertModel.
#include "model/arch/encoders/encoder_parts.h"
#include "model/arch/families.h"

namespace espalier {

ModelSpec distilbert(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = true;
  Mlp mlp;
  mlp.inner = f.count({"hidden_dim"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_in(f, {"activation"}, "gelu");
  mlp.gated = false;
  mlp.bias = true;
  ModelSpec spec = encoder(f, [&](int) { return normed_sums(attention, mlp); });
  spec.norm.eps = 1e-12f;
  learned_places(f, spec, 0, 0);
  spec.scores = first_token_scores(ActivationKind::relu);
  spec.names.layer_prefix = "transformer.layer.{}.";
  rename(spec.names, {{"attn_q", "attention.q_lin"},
                      {"attn_k", "attention.k_lin"},
                      {"attn_v", "attention.v_lin"},
                      {"attn_output", "attention.out_lin"},
                      {"attn_output_norm", "sa_layer_norm"},
                      {"ffn_up", "ffn.lin1"},
                      {"ffn_down", "ffn.lin2"},
                      {"layer_output_norm", "output_layer_norm"},
                      {"cls", "pre_classifier"}});
  return spec;
}

}  // namespace espalier
