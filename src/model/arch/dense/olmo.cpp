// OLMo: LayerNorm without parameters, queries, keys and values clipped. OLMo 2: norms behind each half, queries and keys
// normed over their whole width. OLMo 3: three of four layers with a window.
// Source: OLMo 2 (arXiv 2501.00656); transformers' Olmo3Model.
#include "model/arch/dense/olmo.h"
#include "model/arch/families.h"

namespace espalier {

Attention olmo_attention(const Fields& f) {
  Attention a = grouped_attention(f);
  a.head_norm = Attention::HeadNorm::whole;
  a.qkv_bias = a.out_bias = f.flag_or({"attention_bias"}, false);
  a.clip = static_cast<float>(f.number_or({"clip_qkv", "attention.clamp_kqv"}, 0, {.low = 0}));
  return a;
}

ModelSpec olmo(const Fields& f) {
  Attention attention = olmo_attention(f);
  attention.head_norm = Attention::HeadNorm::none;
  attention.pairs_in_gguf = true;
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, gated_mlp(f)); });
  spec.norm = {NormOp::Kind::layer, 1e-5f, false, false};
  return spec;
}

ModelSpec olmo2(const Fields& f) {
  if (f.is_gguf() && f.has({"", "attention.sliding_window"})) return olmo3(f);  // such files call OLMo 3 so
  ModelSpec spec = decoder(f, [&](int) { return post_norm(olmo_attention(f), gated_mlp(f)); });
  spec.names.hf = kOlmoPostNorms;
  return spec;
}

ModelSpec olmo3(const Fields& f) {
  Attention attention = olmo_attention(f);
  const std::int64_t window = f.integer_or({"sliding_window", "attention.sliding_window"}, 4096);
  const RopeSpec full = *attention.rope,
                 local = rope_of(f, {.head_dim = attention.head_dim, .theta = 500000, .scaled = false});
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool slides = layer_is(f, layer, "sliding_attention", (layer + 1) % 4 != 0);
    attention.visibility = Visibility::window(slides ? window : 0);
    attention.rope = slides ? local : full;
    return post_norm(attention, gated_mlp(f));
  });
  spec.names.hf = kOlmoPostNorms;
  return spec;
}

}  // namespace espalier
