// GPT (the first): learned positions, a LayerNorm behind each sum. CTRL: waves as positions. XGLM: the same from
// position 2 on, of other frequencies. Source: the GPT report, CTRL (arXiv 1909.05858), XGLM (arXiv 2112.10668);
// transformers' classes of these names.
#include <cmath>

#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

Mlp plain_mlp(int inner, ActivationKind how) {
  Mlp mlp;
  mlp.inner = inner;
  mlp.how.activation.kind = how;
  mlp.gated = false;
  mlp.bias = true;
  return mlp;
}

// Heads with biases everywhere; `heads`: what the field is called where not as in other families.
Attention biased_attention(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = true;
  return attention;
}

// Adds waves of 10000^(-i / last) for i in 0 .. half - 1; none at the silent position.
Block waves(int half, double last, int offset, int silent) {
  return [=](Builder& b, Rows x) {
    std::vector<float> frequencies;
    for (int i = 0; i < half; ++i) frequencies.push_back(static_cast<float>(std::pow(10000.0, -i / last)));
    b.emit(AddWavesOp{b.constant(std::move(frequencies)), x, offset, silent});
    return x;
  };
}

// x = norm(x + half(x)) for both halves.
Layer normed_sums(const Attention& attention, const Mlp& mlp) {
  Layer layer;
  layer.body = [attention, mlp](Builder& b, Rows x) {
    b.add(x, attention(b, x));
    const Rows middle = b.norm(x, b.spec().norm, "attn_norm");
    b.add(middle, mlp(b, middle));
    return b.norm(middle, b.spec().norm, "ffn_norm");
  };
  return layer;
}

}  // namespace

ModelSpec openai_gpt(const Fields& f) {
  Attention attention = biased_attention(f);
  attention.fused = FusedQkv::side_by_side;
  ActivationKind how = activation_in(f, {"afn"}, "gelu");
  if (how == ActivationKind::gelu_erf) how = ActivationKind::gelu_tanh;  // what this family calls gelu
  const Mlp mlp = plain_mlp(4 * hidden_size(f), how);
  ModelSpec spec = decoder(f, [&](int) { return normed_sums(attention, mlp); });
  spec.norm = {NormOp::Kind::layer, static_cast<float>(f.number_or({"layer_norm_epsilon"}, 1e-5)), true, true};
  spec.final_norm = false;
  spec.positions = f.count({"n_positions|max_position_embeddings"}, 1 << 20);
  spec.transposed = true;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.tokens_embed"},
                   {"position_embd", "transformer.positions_embed"},
                   {"attn_norm", "ln_1"},
                   {"ffn_norm", "ln_2"},
                   {"attn_qkv", "attn.c_attn"},
                   {"attn_output", "attn.c_proj"},
                   {"ffn_up", "mlp.c_fc"},
                   {"ffn_down", "mlp.c_proj"}};
  return spec;
}

ModelSpec ctrl(const Fields& f) {
  const Attention attention = biased_attention(f);
  const Mlp mlp = plain_mlp(f.count({"dff"}, ConfigLimits::inner), ActivationKind::relu);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.norm = {NormOp::Kind::layer, 1e-6f, true, true};
  if (f.number_or({"layer_norm_epsilon"}, 1e-6) != 1e-6)
    f.refuse({"layer_norm_epsilon"}, "layer_norm_epsilon must be 1e-06 here, as that of the layers always is");
  spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  spec.enter = waves(spec.hidden / 2, spec.hidden / 2.0, 0, -1);
  spec.head_bias = true;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "transformer.h.{}.";
  spec.names.hf = {{"token_embd", "transformer.w"},
                   {"output_norm", "transformer.layernorm"},
                   {"attn_norm", "layernorm1"},
                   {"ffn_norm", "layernorm2"},
                   {"attn_q", "multi_head_attention.Wq"},
                   {"attn_k", "multi_head_attention.Wk"},
                   {"attn_v", "multi_head_attention.Wv"},
                   {"attn_output", "multi_head_attention.dense"},
                   {"ffn_up", "ffn.0"},
                   {"ffn_down", "ffn.2"}};
  return spec;
}

ModelSpec xglm(const Fields& f) {
  const Attention attention = biased_attention(f);
  const Mlp mlp = plain_mlp(f.count({"ffn_dim"}, ConfigLimits::inner), activation_of(f, "gelu"));
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  spec.norm = {NormOp::Kind::layer, 1e-5f, true, true};
  if (f.flag_or({"scale_embedding"}, true)) spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden));
  const int half = spec.hidden / 2, padding = static_cast<int>(f.integer_or({"pad_token_id"}, 1, 0, 1 << 30));
  spec.enter = waves(half, half - 1, 2, f.says_null({"pad_token_id"}) || padding < 2 ? -1 : padding - 2);
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = {{"output_norm", "model.layer_norm"},
                   {"attn_norm", "self_attn_layer_norm"},
                   {"attn_output", "self_attn.out_proj"},
                   {"ffn_norm", "final_layer_norm"},
                   {"ffn_up", "fc1"},
                   {"ffn_down", "fc2"}};
  return spec;
}

}  // namespace espalier
