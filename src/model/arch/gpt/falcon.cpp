// Falcon: queries of one or some KV heads beside their key and value, attention and MLP side by side (from one norm or
// two), rotation or ALiBi. Source: The Falcon Series (arXiv 2311.16867); transformers' FalconModel.
#include <algorithm>
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

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

}  // namespace

ModelSpec falcon(const Fields& f) {
  const bool grouped = f.flag_or({"new_decoder_architecture"}, false);
  const bool beside = grouped || f.is_gguf() || f.flag_or({"parallel_attn"}, true);
  const bool two = grouped && f.flag_or({"parallel_attn"}, true) && f.count_or({"num_ln_in_parallel_attn"}, 2, 2) == 2;
  const Attention attention = falcon_attention(f, grouped);
  const int inner = f.count_or({"ffn_hidden_size", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  const Mlp mlp = gpt_mlp(inner, activation_of(f, "gelu"), f.flag_or({"bias"}, false));
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

}  // namespace espalier
