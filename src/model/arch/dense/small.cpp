// Families that differ from Llama in little: SmolLM3 (some layers without positions), StableLM (LayerNorms, a part of
// each head turns), StarCoder2 (LayerNorms, plain MLP, window), Arcee (squared relu), Apertus (xIELU), Seed-OSS and
// Ministral 3 (biases; queries scaled by position). Source: their model cards and transformers' classes.
#include <cmath>

#include "model/arch/families.h"

namespace espalier {
namespace {

Mlp small_plain_mlp(const Fields& f, std::string_view activation) {
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, activation);
  mlp.gated = false;
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  return mlp;
}

// xIELU's shape in GGUF metadata, a number for each layer.
Activation xielu_of(const Fields& f, int layer) {
  const auto softplus = [](double x) { return static_cast<float>(std::log1p(std::exp(x))); };
  Activation a{ActivationKind::xielu};
  a.linear = static_cast<float>(f.number_of({"", "xielu.beta"}, layer, 0.5));
  a.positive = softplus(f.number_of({"", "xielu.alpha_p"}, layer, 0.5));
  a.negative = a.linear + softplus(f.number_of({"", "xielu.alpha_n"}, layer, 0.5));
  a.least = static_cast<float>(f.number_of({"", "xielu.eps"}, layer, -1e-6));
  return a;
}

}  // namespace

ModelSpec smollm3(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  const auto rope = attention.rope;
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  const int every = std::max(1, f.count_or({"no_rope_layer_interval"}, 4));
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool turns = f.count_of({"no_rope_layers"}, layer, (layer + 1) % every != 0 ? 1 : 0) != 0;
    attention.rope = turns ? rope : std::nullopt;
    const bool slides = f.flag_or({"use_sliding_window"}, false) && layer_is(f, layer, "sliding_attention", false);
    attention.visibility = Visibility::window(slides ? f.integer_or({"sliding_window"}, 0) : 0);
    return pre_norm(attention, mlp);
  });
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  return spec;
}

ModelSpec stablelm(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.25});
  attention.qkv_bias = f.flag_or({"use_qkv_bias"}, false);
  const bool beside = f.flag_or({"use_parallel_residual", "use_parallel_residual"}, false);
  attention.query_norm = {NormOp::Kind::layer, attention.query_norm.eps};
  attention.head_norm_may_lack = true;
  if (f.flag_or({"qk_layernorm"}, f.is_gguf())) attention.head_norm = Attention::HeadNorm::each_apart;
  ModelSpec spec =
      decoder(f, [&](int) { return beside ? parallel(attention, gated_mlp(f)) : pre_norm(attention, gated_mlp(f)); });
  spec.norm.kind = NormOp::Kind::layer;
  spec.norm.bias = true;
  spec.names.hf = {{"attn_q_norm", "self_attn.q_layernorm.norms"}, {"attn_k_norm", "self_attn.k_layernorm.norms"}};
  return spec;
}

// Orion: Llama with LayerNorms.
ModelSpec orion(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  return spec;
}

ModelSpec starcoder2(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"use_bias"}, true);
  attention.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 0));
  Mlp mlp = small_plain_mlp(f, "gelu_pytorch_tanh");
  mlp.bias = f.flag_or({"use_bias"}, true);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.norm.kind = NormOp::Kind::layer;
  spec.norm.bias = true;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};
  return spec;
}

ModelSpec arcee(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  return decoder(f, [&](int) { return pre_norm(attention, small_plain_mlp(f, "relu2")); });
}

ModelSpec apertus(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.head_norm = Attention::HeadNorm::each;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.gated = false;
  mlp.xielu = true;
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int layer) {
    if (f.is_gguf()) {
      mlp.xielu = false;
      mlp.how.activation = xielu_of(f, layer);
    }
    return pre_norm(attention, mlp);
  });
  if (f.has({"output_vocab_size"})) {  // Apertus 1.5: the head knows no tokens of pictures and sounds
    spec.embedded = spec.vocabulary;
    spec.vocabulary = f.count({"output_vocab_size"}, spec.vocabulary);
  }
  spec.names.hf = {{"attn_norm", "attention_layernorm"},    {"ffn_norm", "feedforward_layernorm"},
                   {"xielu_alpha_p", "mlp.act_fn.alpha_p"}, {"xielu_alpha_n", "mlp.act_fn.alpha_n"},
                   {"xielu_beta", "mlp.act_fn.beta"},       {"xielu_eps", "mlp.act_fn.eps"}};
  return spec;
}

ModelSpec seed_oss(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = f.flag_or({"attention_bias"}, true);
  attention.out_bias = f.flag_or({"attention_out_bias"}, false);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.names.gguf = {{"ffn_norm", "post_attention_norm"}};
  return spec;
}

}  // namespace espalier
