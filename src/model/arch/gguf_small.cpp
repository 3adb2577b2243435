// Families that are served as GGUF files, each Llama or GPT-2 with a difference: Refact (ALiBi, one KV head), CodeShell,
// Jais (ALiBi, a gated MLP), OpenELM (heads and MLPs that differ between layers), Maincoder (norms of heads behind the
// rotation), Arctic (an MLP and experts side by side), PLM (latent attention, squared relu).
// Source: their model cards; llama.cpp for names and defaults.
#include "model/arch/families.h"
#include "model/arch/latent.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

void only_in_gguf(const Fields& f) {
  if (!f.is_gguf())
    f.refuse({"model_type"}, "this family is read from GGUF files only; one of this model, or its conversion, would work");
}

Norm layer_norm_of(const Fields& f) {
  return {NormOp::Kind::layer,
          static_cast<float>(f.number_or({"layer_norm_epsilon", "attention.layer_norm_epsilon"}, 1e-5)), true, true};
}

}  // namespace

ModelSpec refact(const Fields& f) {
  only_in_gguf(f);
  Attention attention = attention_heads(f);
  attention.slopes = alibi_slopes(attention.heads);
  return decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
}

ModelSpec codeshell(const Fields& f) {
  Attention attention = attention_heads(f);
  if (!f.is_gguf()) attention.kv_heads = static_cast<int>(f.integer_or({"num_query_groups"}, 1, 1, attention.heads));
  if (attention.heads % attention.kv_heads != 0)
    f.refuse({"num_query_groups"}, "num_query_groups must divide the number of heads");
  attention.rope = rope_of(f, {.head_dim = attention.head_dim});
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = attention.out_bias = true;
  Mlp mlp;
  mlp.inner = f.count_or({"n_inner", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, "gelu_pytorch_tanh");
  mlp.gated = false;
  mlp.bias = true;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.norm = layer_norm_of(f);
  spec.names.gguf = {{"token_embd", "token_embd|output"}};
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"}, {"output_norm", "transformer.ln_f"}, {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},              {"attn_qkv", "attn.c_attn"},         {"attn_output", "attn.c_proj"},
                   {"ffn_up", "mlp.c_fc"},            {"ffn_down", "mlp.c_proj"}};
  return spec;
}

ModelSpec jais(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.slopes = alibi_slopes(attention.heads, f.number_or({"", "attention.max_alibi_bias"}, 8, {.low = 0, .high = 64}));
  attention.fused = FusedQkv::side_by_side;
  attention.qkv_bias = attention.out_bias = true;
  if (f.flag_or({"mup_scale_qk_dot_by_d|scale_qk_dot_by_d"}, f.is_gguf()))
    attention.scale = 1.0f / static_cast<float>(attention.head_dim);
  if (f.word_or({"activation_function"}, "swiglu") != "swiglu" || f.word_or({"position_embedding_type"}, "alibi") != "alibi")
    f.refuse({"activation_function"}, "only Jais with swiglu and alibi is supported here");
  Mlp mlp;
  mlp.inner = f.count_or({"n_inner", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  mlp.bias = true;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.norm = layer_norm_of(f);
  spec.embedding_scale = static_cast<float>(f.number_or({"mup_embeddings_scale|embeddings_scale"}, 1));
  spec.logit_scale = static_cast<float>(
      f.has({"mup_output_alpha"}) ? f.number_or({"mup_output_alpha"}, 1) * f.number_or({"mup_width_scale"}, 1)
                                  : f.number_or({"width_scale"}, 1));
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.transposed = true;
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.wte"}, {"output_norm", "transformer.ln_f"}, {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},              {"attn_qkv", "attn.c_attn"},         {"attn_output", "attn.c_proj"},
                   {"ffn_up", "mlp.c_fc"},            {"ffn_gate", "mlp.c_fc2"},           {"ffn_down", "mlp.c_proj"}};
  return spec;
}

ModelSpec openelm(const Fields& f) {
  only_in_gguf(f);
  ModelSpec spec = decoder(f, [&](int layer) {
    Attention attention = grouped_attention(f, layer);
    attention.fused = FusedQkv::side_by_side;
    attention.head_norm = Attention::HeadNorm::each;
    Mlp mlp;
    mlp.inner = std::max(1, f.count_of({"", "feed_forward_length"}, layer, 1, ConfigLimits::inner));
    return pre_norm(attention, mlp);
  });
  spec.tied_head = true;
  return spec;
}

ModelSpec maincoder(const Fields& f) {
  only_in_gguf(f);
  Attention attention = grouped_attention(f);
  attention.head_norm = Attention::HeadNorm::each;
  attention.norm_behind_rope = true;
  attention.pairs = true;
  return decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
}

// x + attention + mlp of the sum, and experts of the row that attention read.
ModelSpec arctic(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  Mlp mlp;
  mlp.inner = hidden_size(f);
  Experts experts = experts_of(f);
  experts.router.renormalise = true;
  experts.gate = "w1";
  experts.up = "w3";
  experts.down = "w2";
  Layer layer;
  layer.body = [=](Builder& b, Rows x) {
    const Norm& norm = b.spec().norm;
    const Rows routed = b.norm(x, norm, "ffn_norm_exps");
    b.add(x, attention(b, b.norm(x, norm, "attn_norm")));
    b.add(x, mlp(b, b.norm(x, norm, "ffn_norm")));
    b.add(x, experts(b, routed));
    return x;
  };
  if (!f.flag_or({"use_residual|parallel_attn_mlp_res"}, true))
    f.refuse({"parallel_attn_mlp_res"}, "parallel_attn_mlp_res must be true for Arctic here");
  if (f.count_or({"moe_layer_frequency"}, 1) != 1)
    f.refuse({"moe_layer_frequency"}, "moe_layer_frequency must be 1 for Arctic here");
  ModelSpec spec = decoder(f, [&](int) { return layer; });
  spec.names.hf = {{"ffn_norm", "residual_layernorm"},  {"ffn_norm_exps", "post_attention_layernorm"},
                   {"ffn_gate", "residual_mlp.w1"},     {"ffn_up", "residual_mlp.w3"},
                   {"ffn_down", "residual_mlp.w2"},     {"ffn_gate_inp", "block_sparse_moe.gate"},
                   {"ffn_exps", "block_sparse_moe.experts"}};
  return spec;
}

ModelSpec plm(const Fields& f) {
  LatentAttention attention = latent_attention(f);
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, "relu2");
  mlp.gated = false;
  return decoder(f, [&](int) { return pre_norm(attention, mlp); });
}

}  // namespace espalier
