// Mistral 4: latent attention whose queries are scaled by position, experts in groups. Source: transformers'
// Mistral4Model.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/latent/latent.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec mistral4(const Fields& f) {
  LatentAttention attention = latent_attention(f);
  const Fields rope = f.is_gguf() ? f : f.at({"rope_parameters"});
  attention.query_scale.beta =
      static_cast<float>(rope.number_or({"llama_4_scaling_beta", "attention.temperature_scale"}, 0));
  attention.query_scale.period = rope.integer_or(
      {"original_max_position_embeddings", "attention.temperature_length|rope.scaling.original_context_length"}, 8192,
      1);
  Experts experts = deepseek_experts(f, {.sigmoid = false, .corrected = false, .renormalise = true});
  experts.router.group_by_two = true;
  experts.fused = FusedExperts::rows;
  return decoder(f, [&](int layer) {
    return pre_norm(attention, is_dense_layer(f, layer, 0) ? Block(gated_mlp(f)) : Block(experts));
  });
}

}  // namespace espalier
