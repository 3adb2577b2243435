// Falcon: queries of one or some KV heads beside their key and value, attention and MLP side by side (from one norm or
// two), rotation or ALiBi. Bloom: ALiBi, a norm behind the embedding. MPT: ALiBi, norms without bias, clipped values.
// Source: The Falcon Series (arXiv 2311.16867); BLOOM (arXiv 2211.05100); MPT model cards; transformers' classes.
#include <cmath>

#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

Mlp falcon_mlp(int inner, ActivationKind kind, bool bias) {
  Mlp mlp;
  mlp.inner = inner;
  mlp.how.activation.kind = kind;
  mlp.gated = false;
  mlp.bias = bias;
  return mlp;
}

Attention falcon_attention(const Fields& f, bool grouped) {
  Attention a = attention_heads(f);
  const bool many = f.flag_or({"multi_query"}, true);
  if (!f.is_gguf())
    a.kv_heads = grouped ? std::max(1, f.count_or({"num_kv_heads|n_head_kv"}, a.heads, a.heads)) : many ? 1 : a.heads;
  if (a.heads % a.kv_heads != 0) f.refuse({"num_kv_heads"}, "num_kv_heads must divide num_attention_heads");
  a.fused = FusedQkv::by_group;
  a.qkv_bias = a.out_bias = f.flag_or({"bias"}, false);
  if (f.flag_or({"alibi"}, false)) {
    a.slopes = alibi_slopes(a.heads);
    for (float& slope : a.slopes) slope /= std::sqrt(static_cast<float>(a.head_dim));
  } else {
    a.rope = rope_of(f, {.head_dim = a.head_dim});
  }
  return a;
}

// GGUF files call the MLP's norm attn_norm and attention's own attn_norm_2, where there are two.
Rows falcon_layer(Builder& b, Layer layer, Rows x) {
  layer.body = {};
  layer.halves.front().before = b.has("attn_norm_2") ? "attn_norm_2" : "attn_norm";
  layer.halves.back().before = "attn_norm";
  return b.run(layer, x);
}

const std::vector<Names::Entry> kBloomNames = {{"attn_qkv", "self_attention.query_key_value"},
                                               {"attn_output", "self_attention.dense"},
                                               {"attn_norm", "input_layernorm"},
                                               {"ffn_norm", "post_attention_layernorm"},
                                               {"ffn_up", "mlp.dense_h_to_4h"},
                                               {"ffn_down", "mlp.dense_4h_to_h"},
                                               {"token_embd", "transformer.word_embeddings"},
                                               {"output_norm", "transformer.ln_f"},
                                               {"token_embd_norm", "transformer.word_embeddings_layernorm"}};

}  // namespace

ModelSpec falcon(const Fields& f) {
  const bool grouped = f.flag_or({"new_decoder_architecture"}, false);
  const bool beside = grouped || f.is_gguf() || f.flag_or({"parallel_attn"}, true);
  const bool two = grouped && f.flag_or({"parallel_attn"}, true) && f.count_or({"num_ln_in_parallel_attn"}, 2, 2) == 2;
  const Attention attention = falcon_attention(f, grouped);
  const int inner = f.count_or({"ffn_hidden_size", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  const Mlp mlp = falcon_mlp(inner, activation_of(f, "gelu"), f.flag_or({"bias"}, false));
  ModelSpec spec = decoder(f, [&](int) {
    Layer layer = pre_norm(attention, mlp);
    layer.parallel = beside;
    if (beside && !two) layer.halves.back().before = "attn_norm";
    if (f.is_gguf()) layer.body = [layer](Builder& b, Rows x) { return falcon_layer(b, layer, x); };
    return layer;
  });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = kBloomNames;
  if (two) spec.names.hf.insert(spec.names.hf.begin(), {{"attn_norm", "ln_attn"}, {"ffn_norm", "ln_mlp"}});
  return spec;
}

ModelSpec bloom(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.fused = FusedQkv::by_group;
  attention.qkv_bias = attention.out_bias = true;
  attention.slopes = alibi_slopes(attention.heads);
  const int inner = f.count_or({"n_inner", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  const bool normed = f.flag_or({"apply_residual_connection_post_layernorm"}, false);
  ModelSpec spec = decoder(f, [&](int) {
    Layer layer = pre_norm(attention, falcon_mlp(inner, ActivationKind::gelu_tanh, true));
    for (Half& half : layer.halves) half.keep_normed = normed;
    return layer;
  });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.embedding_norm = "token_embd_norm";
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = kBloomNames;
  return spec;
}

ModelSpec mpt(const Fields& f) {
  const Fields own = f.is_gguf() ? f : f.at({"attn_config"});
  Attention attention = attention_heads(f);
  attention.fused = FusedQkv::side_by_side;
  attention.scale = static_cast<float>(own.number_or({"softmax_scale"}, 0));
  attention.clip = static_cast<float>(own.number_or({"clip_qkv", "attention.clamp_kqv"}, 0, {.low = 0}));
  if (own.flag_or({"qk_ln"}, false) || own.word_or({"attn_type"}, "multihead_attention") != "multihead_attention")
    own.refuse({"qk_ln"},
               "normed query and key heads, and attn_type other than multihead_attention, are not supported for MPT");
  const double steepest = own.number_or({"alibi_bias_max", "attention.max_alibi_bias"}, f.is_gguf() ? 0 : 8);
  if (!own.flag_or({"alibi"}, true)) own.refuse({"alibi"}, "alibi is false, but MPT without ALiBi is not supported");
  if (steepest > 0) attention.slopes = alibi_slopes(attention.heads, steepest);
  const int ratio = f.count_or({"expansion_ratio"}, 4, 64);
  const int inner = f.count_or({"", "feed_forward_length"}, ratio * hidden_size(f), ConfigLimits::inner);
  ModelSpec spec =
      decoder(f, [&](int) { return pre_norm(attention, falcon_mlp(inner, ActivationKind::gelu_erf, false)); });
  spec.norm.kind = NormOp::Kind::layer;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.blocks.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"}, {"output_norm", "transformer.norm_f"},
                   {"attn_norm", "norm_1"},           {"ffn_norm", "norm_2"},
                   {"attn_qkv", "attn.Wqkv"},         {"attn_output", "attn.out_proj"},
                   {"ffn_up", "ffn.up_proj"},         {"ffn_down", "ffn.down_proj"}};
  return spec;
}

}  // namespace espalier
