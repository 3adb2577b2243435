// ModernBERT: a norm before each half but none before the first attention, windows both ways in most layers with a base of
// rotation of their own. Source: arXiv 2412.13663; transformers' ModernBertModel.
#include "model/arch/encoders/encoder_parts.h"
#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// Scores of the first row or of the mean: cls, an activation, cls.norm, cls.output.
std::function<PooledOutput(int)> modernbert_scores(const Fields& f) {
  constexpr std::int64_t kFirstInGguf = 2;
  const bool first = f.is_gguf() ? f.integer_or({"", "classifier.pooling_type"}, 1) == kFirstInGguf
                                 : f.word_or({"classifier_pooling"}, "cls") != "mean";
  const Pooling pooling = first ? Pooling::first : Pooling::mean;
  const Activation how{activation_in(f, {"classifier_activation"}, "gelu")};
  const bool bias = f.flag_or({"classifier_bias"}, false);
  return [=](int labels) {
    return PooledOutput{pooling, [=](Builder& b, Rows x) {
                          if (!b.is_gguf() || b.has("cls"))
                            x = b.activate(b.matmul(x, {b.matrix("cls", x.width, x.width, bias)}), how);
                          if (!b.is_gguf() || b.has("cls.norm")) x = b.norm(x, b.spec().norm, "cls.norm");
                          return b.matmul(x, {b.matrix("cls.output", labels, x.width, true)});
                        }};
  };
}

}  // namespace

ModelSpec modernbert(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.fused = FusedQkv::side_by_side;
  Mlp mlp = gated_mlp(f);
  mlp.how.activation.kind = activation_in(f, {"hidden_activation", "hidden_act|hidden_activation"}, "gelu");
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  mlp.fused = true;
  const std::int64_t every = f.integer_or({"global_attn_every_n_layers", "attention.sliding_window_pattern"}, 3, 1);
  const std::int64_t each_way = f.integer_or({"local_attention", "attention.sliding_window"}, 128, 0) / 2;
  ModelSpec spec = encoder(f, [&](int layer) {
    const bool slides = f.is_gguf() ? layer % every != 0 : layer_is(f, layer, "sliding_attention", layer % every != 0);
    RopeWish wish{.head_dim = attention.head_dim, .theta = slides ? 10000.0 : 160000.0};
    if (f.at({"rope_parameters"}).has({"full_attention"})) {
      wish.layer_type = slides ? "sliding_attention" : "full_attention";
    } else {
      const FieldName name = slides ? FieldName{"local_rope_theta", "rope.freq_base_swa"}
                                    : FieldName{"global_rope_theta", "rope.freq_base"};
      wish.theta = f.number_or(name, wish.theta, {.low = 1});
      wish.own_theta = true;
    }
    attention.rope = rope_of(f, wish);
    attention.visibility = Visibility::window(slides ? each_way + 1 : 0);
    Layer made = pre_norm(attention, mlp);
    if (layer == 0) made.halves.front().before = {};
    return made;
  });
  spec.norm.eps = static_cast<float>(f.number_or({"norm_eps", "attention.layer_norm_epsilon"}, 1e-5));
  spec.norm.bias = f.flag_or({"norm_bias"}, false);
  spec.final_norm = true;
  spec.longest = 8192;
  spec.scores = modernbert_scores(f);
  spec.names.layer_prefix = "layers.{}.";
  spec.names.hf = {{"token_embd", "embeddings.tok_embeddings"},
                   {"token_embd_norm", "embeddings.norm"},
                   {"output_norm", "final_norm"},
                   {"attn_norm", "attn_norm"},
                   {"attn_qkv", "attn.Wqkv"},
                   {"attn_output", "attn.Wo"},
                   {"ffn_norm", "mlp_norm"},
                   {"ffn_gate_up", "mlp.Wi"},
                   {"ffn_down", "mlp.Wo"},
                   {"cls", "head.dense"},
                   {"cls.norm", "head.norm"},
                   {"cls.output", "classifier"}};
  return spec;
}

}  // namespace espalier
