// Bloom: ALiBi, a norm behind the embedding. Source: BLOOM (arXiv 2211.05100); transformers' BloomModel.
#include "model/arch/families.h"
#include "model/arch/gpt/gpt_parts.h"

namespace espalier {

ModelSpec bloom(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.fused = FusedQkv::by_group;
  attention.qkv_bias = attention.out_bias = true;
  attention.slopes = alibi_slopes(attention.heads);
  const int inner = f.count_or({"n_inner", "feed_forward_length"}, 4 * hidden_size(f), ConfigLimits::inner);
  const bool normed = f.flag_or({"apply_residual_connection_post_layernorm"}, false);
  ModelSpec spec = decoder(f, [&](int) {
    Layer layer = pre_norm(attention, gpt_mlp(inner, ActivationKind::gelu_tanh, true));
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

}  // namespace espalier
