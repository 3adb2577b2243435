// Lara Mini: gated delta nets beside layers that turn only where they have a window.
// Source: transformers' LaraMiniModel.
#include "model/arch/experts/windowed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"
#include "model/blocks/recurrent/delta_rule.h"

namespace espalier {

// Checkpoints keep all that a delta net's product gives in one matrix.
ModelSpec lara_mini(const Fields& f) {
  DeltaRule delta = delta_net(f);
  delta.stored = DeltaRule::Stored::in_one;
  Experts experts = with_shared(f, 512);
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, true);
  constexpr bool kRecurs[] = {true, false, true, false, false}, kSlides[] = {false, true, false, false, true};
  ModelSpec spec = decoder(f, [&](int layer) {
    if (layer_is(f, layer, "linear_attention", kRecurs[layer % 5])) return pre_norm(delta, experts);
    return pre_norm(window_attention(f, layer, kSlides[layer % 5], 512), experts);
  });
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = qwen_next_names();
  spec.names.hf.push_back({"ssm_in_all", "linear_attn.in_proj"});
  for (Names::Entry& entry : spec.names.hf)
    if (entry.role == "ssm_norm") entry.name = "linear_attn.out_norm|linear_attn.norm";
  return spec;
}

}  // namespace espalier
