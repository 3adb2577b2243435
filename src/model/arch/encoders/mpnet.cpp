// MPNet: BERT whose attention has a learned bias by distance, the same in all layers. Source: arXiv 2004.09297;
// transformers' MPNetModel.
#include "model/arch/encoders/encoder_parts.h"
#include "model/arch/families.h"

namespace espalier {

ModelSpec mpnet(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = true;
  attention.buckets = DistanceBuckets{static_cast<int>(f.integer_or({"relative_attention_num_buckets"}, 32, 4, 256))};
  const Mlp mlp = plain_mlp(f, "gelu", true);
  ModelSpec spec = encoder(f, [&](int) { return normed_sums(attention, mlp); });
  learned_places(f, spec, 2, 0);  // whatever its padding is called
  rename(spec.names, {{"attn_q", "attention.attn.q"},
                      {"attn_k", "attention.attn.k"},
                      {"attn_v", "attention.attn.v"},
                      {"attn_output", "attention.attn.o"},
                      {"attn_output_norm", "attention.LayerNorm"},
                      {"attn_rel_b", "encoder.relative_attention_bias"},
                      {"cls", "classifier.dense"},
                      {"cls.output", "classifier.out_proj"}});
  return spec;
}

}  // namespace espalier
