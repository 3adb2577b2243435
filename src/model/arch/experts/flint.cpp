// Flint: layers that turn only where they have a window, sinks. Source: transformers' FlintModel.
#include "model/arch/experts/windowed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec flint(const Fields& f) {
  Experts experts = with_shared(f, 1024);
  experts.router.scores = RouterSpec::Scores::sigmoid;
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, true);
  const int layers = layer_count(f);
  ModelSpec spec = decoder(f, [&](int layer) {
    const bool full = layer < 2 || layer % 4 == 1 || layer == layers - 1;
    Attention attention = window_attention(f, layer, !full, 513);
    attention.sinks = true;
    const bool dense = f.has({"mlp_only_layers"}) ? qwen_layer_is_dense(f, layer) : layer < 2;
    return pre_norm(attention, dense ? Block(gated_mlp(f)) : Block(experts));
  });
  spec.names.hf = kSharedExpert;
  spec.names.hf.push_back({"attn_sinks", "self_attn.sinks|self_attn.softmax_offset"});
  return spec;
}

}  // namespace espalier
