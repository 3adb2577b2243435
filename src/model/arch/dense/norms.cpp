// Families with LayerNorms or a plain MLP: Nemotron (gains less one, squared relu), Jais 2, Persimmon (one tensor of each
// head's query, key and value), NanoChat (norms without gain, rotation the other way round), BitNet (norms inside of
// attention and MLP), Helium (neighbours turn together). Source: their model cards and transformers' classes.
#include "model/arch/families.h"

namespace espalier {
namespace {

Mlp relu2_mlp(const Fields& f, bool bias) {
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, "relu2");
  mlp.gated = false;
  mlp.bias = bias;
  return mlp;
}

}  // namespace

ModelSpec nemotron(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, relu2_mlp(f, f.flag_or({"mlp_bias"}, false))); });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true, true};
  return spec;
}

ModelSpec jais2(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, true);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, relu2_mlp(f, f.flag_or({"mlp_bias"}, true))); });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  return spec;
}

ModelSpec persimmon(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
  attention.fused = FusedQkv::by_group;
  attention.qkv_bias = attention.out_bias = true;
  attention.query_norm = {NormOp::Kind::layer, attention.query_norm.eps, true, true};
  if (f.flag_or({"qk_layernorm"}, true)) attention.head_norm = Attention::HeadNorm::each;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, relu2_mlp(f, true)); });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  spec.names.hf = {{"output_norm", "model.final_layernorm"}, {"attn_qkv", "self_attn.query_key_value"},
                   {"attn_output", "self_attn.dense"},       {"attn_q_norm", "self_attn.q_layernorm"},
                   {"attn_k_norm", "self_attn.k_layernorm"}, {"ffn_up", "mlp.dense_h_to_4h"},
                   {"ffn_down", "mlp.dense_4h_to_h"}};
  return spec;
}

ModelSpec nanochat(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  for (float& frequency : attention.rope->inverse_frequency) frequency = -frequency;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.head_norm = Attention::HeadNorm::each;
  attention.norm_behind_rope = true;
  attention.query_norm.gain = false;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, relu2_mlp(f, false)); });
  spec.norm.gain = false;
  spec.embedding_norm = "token_embd_norm";
  spec.logit_cap =
      static_cast<float>(f.says_null({"final_logit_softcapping"}) ? 0 : f.number_or({"final_logit_softcapping"}, 15));
  spec.names.hf = {{"ffn_up", "mlp.fc1"}, {"ffn_down", "mlp.fc2"}};
  return spec;
}

ModelSpec bitnet(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 500000});
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.out_norm = true;
  Mlp mlp = gated_mlp(f);
  mlp.how.activation.kind = activation_of(f, f.is_gguf() ? "silu" : "relu2");
  mlp.inner_norm = true;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.names.hf = {{"attn_sub_norm", "self_attn.attn_sub_norm"}, {"ffn_sub_norm", "mlp.ffn_sub_norm"}};
  return spec;
}

ModelSpec helium(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 100000});
  attention.pairs = true;
  attention.qkv_bias = f.flag_or({"attention_bias"}, false);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  return decoder(f, [&](int) { return pre_norm(attention, mlp); });
}

}  // namespace espalier
