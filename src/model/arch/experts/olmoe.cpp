// OLMoE: OLMo's attention with experts. FlexOlmo: OLMo 2 with experts.
// Source: OLMoE (arXiv 2409.02060); transformers' OlmoeModel and FlexOlmoModel.
#include "model/arch/dense/olmo.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec flex_olmo(const Fields& f) {
  Attention attention = olmo_attention(f);
  attention.clip = 0;
  Experts experts = experts_of(f);
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, false);
  ModelSpec spec = decoder(f, [&](int) { return post_norm(attention, experts); });
  spec.names.hf = kOlmoPostNorms;
  return spec;
}

ModelSpec olmoe(const Fields& f) {
  Experts experts = experts_of(f);
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, false);
  Attention attention = olmo_attention(f);
  attention.clip_behind_norm = true;
  return decoder(f, [&](int) { return pre_norm(attention, experts); });
}

}  // namespace espalier
