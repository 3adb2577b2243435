#include "model/arch/dense/plamo_parts.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {
namespace {

// Norms before both halves store the gain less one, those behind them less 1/5 and less 5^-1.5; in GGUF files all
// whole.
Layer plamo_layer(const Block& mixer, const Mlp& mlp) {
  Layer layer;
  layer.body = [mixer, mlp](Builder& b, Rows x) {
    const auto normed = [&](Rows rows, std::string_view role, double less) {
      NormOp op{.in = rows, .out = b.buffer(rows.width), .eps = b.spec().norm.eps};
      op.gain = b.vector(role, {rows.width});
      if (!b.is_gguf())
        for (float& gain : b.values(op.gain)) gain += static_cast<float>(less);
      b.emit(op);
      return op.out;
    };
    b.add(x, normed(mixer(b, normed(x, "attn_norm", 1)), "post_attention_norm", 1.0 / 5));
    b.add(x, normed(mlp(b, normed(x, "ffn_norm", 1)), "post_ffw_norm", 1.0 / std::pow(5.0, 1.5)));
    return x;
  };
  return layer;
}

}  // namespace

ModelSpec plamo_model(const Fields& f, const std::function<Block(int)>& mixer) {
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.fused = true;
  ModelSpec spec = decoder(f, [&](int layer) { return plamo_layer(mixer(layer), mlp); });
  spec.norm.one_plus = true;
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.layer_prefix = "model.layers.layers.{}.";
  spec.names.hf = {{"attn_norm", "pre_mixer_norm"}, {"post_attention_norm", "post_mixer_norm"},
                   {"ffn_norm", "pre_mlp_norm"},    {"post_ffw_norm", "post_mlp_norm"},
                   {"attn_qkv", "mixer.qkv_proj"},  {"attn_output", "mixer.o_proj"},
                   {"attn_q_norm", "mixer.q_norm"}, {"attn_k_norm", "mixer.k_norm"}};
  return spec;
}

Attention plamo_attention(const Fields& f, int layer) {
  Attention a = attention_heads(f, layer);
  const FieldName dim{"hidden_size_per_head|head_dim", "attention.key_length"};
  a.head_dim = f.has(dim) ? f.count(dim, ConfigLimits::head_dim) : 128;
  a.value_dim = a.head_dim;
  if (std::int64_t{a.heads} * a.head_dim > ConfigLimits::attention_width)
    f.refuse(dim, "the heads are wider together than is possible here");
  a.fused = FusedQkv::side_by_side;
  return a;
}

}  // namespace espalier
