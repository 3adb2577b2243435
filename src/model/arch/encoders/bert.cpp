// BERT (arXiv 1810.04805) and RoBERTa (1907.11692, 1911.02116): learned positions and types of tokens, a LayerNorm behind
// each sum. RoBERTa's positions begin behind that of the padding; its classifier has names of its own.
#include "model/arch/encoders/encoder_parts.h"
#include "model/arch/families.h"

namespace espalier {
namespace {

ModelSpec bert_layers(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.qkv_bias = attention.out_bias = true;
  if (f.is_gguf()) attention.fused = FusedQkv::side_by_side;
  const Mlp mlp = plain_mlp(f, "gelu", true);
  return encoder(f, [&](int) { return normed_sums(attention, mlp); });
}

}  // namespace

ModelSpec bert(const Fields& f) {
  ModelSpec spec = bert_layers(f);
  learned_places(f, spec, 0, f.count_or({"type_vocab_size"}, 2, 1 << 16));
  return spec;
}

ModelSpec roberta(const Fields& f) {
  ModelSpec spec = bert_layers(f);
  learned_places(f, spec, 1 + f.count_or({"pad_token_id"}, 1), f.count_or({"type_vocab_size"}, 2, 1 << 16));
  rename(spec.names, {{"cls", "classifier.dense"}, {"cls.output", "classifier.out_proj"}});
  return spec;
}

}  // namespace espalier
