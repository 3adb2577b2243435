// Granite 4 ("GraniteMoeHybrid"): Mamba-2 in most layers, attention mostly without rotation, experts only in the larger
// models. Source: Granite 4.0 language models; transformers' GraniteMoeHybridModel.
#include "model/arch/experts/granite_moe.h"
#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"

namespace espalier {
namespace {

bool rotates(const Fields& f) {
  return f.is_gguf() ? f.flag_or({"", "rope.scaling.finetuned"}, true)
                     : f.word_or({"position_embedding_type"}, "nope") == "rope";
}

}  // namespace

ModelSpec granite_hybrid(const Fields& f) {
  return granite_experts(f, [&](int layer) {
    if (!has_key_heads(f, layer)) {
      Mamba2 mamba = mamba2_of(f);
      mamba.activation = activation_of(f);
      return Block(mamba);
    }
    Attention attention = granite_attention(f, layer);
    if (!rotates(f)) attention.rope.reset();
    return Block(attention);
  });
}

}  // namespace espalier
