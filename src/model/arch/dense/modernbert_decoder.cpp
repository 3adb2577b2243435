// ModernBERT's decoder (Ettin): LayerNorms, no norm before the first attention, windows in most layers with a base of
// rotation of their own, and a dense layer before the head. Source: ModernBERT (arXiv 2412.13663), Ettin (arXiv
// 2507.11412); transformers' ModernBertDecoderModel.
#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {

ModelSpec modernbert_decoder(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  Mlp mlp = gated_mlp(f);
  mlp.how.activation.kind = activation_of(f, "gelu");
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  mlp.fused = true;
  const std::int64_t every = f.integer_or({"global_attn_every_n_layers"}, 3, 1);
  const std::int64_t window = f.says_null({"local_attention"}) ? 0 : f.integer_or({"local_attention"}, 128, 0) / 2;
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", layer % every != 0);
    RopeWish wish{.head_dim = attention.head_dim, .theta = slides ? 10000.0 : 160000.0};
    const bool by_type = f.at({"rope_parameters"}).has({"full_attention"});
    if (by_type) wish.layer_type = slides ? "sliding_attention" : "full_attention";
    if (!by_type) {
      wish.theta = f.number_or({slides ? "local_rope_theta" : "global_rope_theta"}, wish.theta, {.low = 1});
      wish.own_theta = true;
    }
    attention.rope = rope_of(f, wish);
    attention.visibility = Visibility::window(slides ? window : 0);
    Layer made = pre_norm(attention, mlp);
    if (layer == 0) made.halves.front().before = {};
    return made;
  });
  const bool bias = f.flag_or({"norm_bias"}, false);
  spec.norm = {NormOp::Kind::layer, static_cast<float>(f.number_or({"norm_eps"}, 1e-5)), true, bias};
  spec.embedding_norm = "token_embd_norm";
  const Activation how{activation_in(f, {"classifier_activation"}, "gelu")};
  const bool dense_bias = f.flag_or({"classifier_bias"}, false);
  spec.leave = [how, dense_bias](Builder& b, Rows x) {
    const Rows normed = b.norm(x, b.spec().norm, "model_norm");
    return b.activate(b.matmul(normed, {b.matrix("head_dense", x.width, x.width, dense_bias)}), how);
  };
  spec.head_bias = f.flag_or({"decoder_bias"}, true);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = {{"token_embd", "model.embeddings.tok_embeddings"},
                   {"token_embd_norm", "model.embeddings.norm"},
                   {"model_norm", "model.final_norm"},
                   {"head_dense", "lm_head.dense"},
                   {"output_norm", "lm_head.norm"},
                   {"output", "decoder"},
                   {"attn_norm", "attn_norm"},
                   {"attn_q", "attn.q_proj"},
                   {"attn_k", "attn.k_proj"},
                   {"attn_v", "attn.v_proj"},
                   {"attn_output", "attn.Wo"},
                   {"ffn_norm", "mlp_norm"},
                   {"ffn_gate", "mlp.gate"},
                   {"ffn_gate_up", "mlp.Wi"},
                   {"ffn_down", "mlp.Wo"}};
  return spec;
}

}  // namespace espalier
