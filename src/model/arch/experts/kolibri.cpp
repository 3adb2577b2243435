// Kolibri 1: layers that turn only where they have a window, norms around both halves.
// Source: transformers' Kolibri1Model.
#include "model/arch/experts/windowed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec kolibri1(const Fields& f) {
  Experts experts = with_shared(f, 512);
  experts.router.scores = RouterSpec::Scores::sigmoid_of_chosen;
  experts.router.renormalise = f.flag_or({"norm_topk_prob"}, false);
  experts.correction = true;
  const bool windows = !f.says_null({"sliding_window"});
  ModelSpec spec = decoder(f, [&](int layer) {
    Attention attention = windows ? window_attention(f, layer, (layer + 1) % 5 != 0, 513) : grouped_attention(f);
    attention.head_norm = Attention::HeadNorm::each;
    attention.qkv_bias = attention.out_bias = false;
    return sandwich(attention, experts);
  });
  spec.names.hf = {{"post_attention_norm", "post_self_attn_layernorm|post_attn_norm"},
                   {"post_ffw_norm", "post_mlp_layernorm|post_ffn_norm"},
                   {"exp_probs_b", "mlp.gate.e_score_correction_bias|moe.router.expert_bias"}};
  return spec;
}

}  // namespace espalier
