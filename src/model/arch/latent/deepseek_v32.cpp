// Latent attention that reads the positions which an indexer has chosen: DeepSeek-V3.2, GLM-5 (layers may share the
// choice of an earlier one). Source: DeepSeek-V3.2-Exp; transformers' DeepseekV32Model and GlmMoeDsaModel.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/latent/indexed.h"
#include "model/arch/latent/latent.h"
#include "model/blocks/attention/indexer.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec deepseek_v32(const Fields& f) {
  LatentAttention a = latent_attention(f);
  a.pairs = true;
  a.indexer = indexer_of(f, a, 64, false);
  const Experts experts = deepseek_experts(f, {});
  ModelSpec spec = decoder(f, [&](int layer) { return pre_norm(a, mlp_or_experts(f, layer, 3, experts)); });
  bring_draft_layer(spec, pre_norm(a, experts));
  return spec;
}

ModelSpec glm_moe_dsa(const Fields& f) {
  LatentAttention a = latent_attention(f);
  a.pairs = true;
  const Indexer indexer = indexer_of(f, a, 32, true);
  const Experts experts = deepseek_experts(f, {});
  const int every = f.count_or({"index_topk_freq"}, 1), offset = f.count_or({"index_skip_topk_offset"}, 2);
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(sharing(f, a, indexer, layer, every, offset), mlp_or_experts(f, layer, 3, experts));
  });
  LatentAttention drafting = a;
  drafting.indexer = indexer;
  bring_draft_layer(spec, pre_norm(drafting, experts));
  return spec;
}

}  // namespace espalier
