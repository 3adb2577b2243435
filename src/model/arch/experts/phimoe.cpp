// PhiMoE: LayerNorms, sixteen experts. Source: Phi-3 technical report (arXiv 2404.14219).
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

// PhiMoE: LayerNorms, and experts chosen one after the other; longrope's magnitudes stand in the checkpoint.
ModelSpec phimoe(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 0));
  const Fields scaling = f.at({f.has({"rope_parameters"}) ? "rope_parameters" : "rope_scaling"});
  if (scaling.has({"short_mscale"})) {
    attention.rope->magnitude = static_cast<float>(scaling.number_or({"short_mscale"}, 1));
    if (scaling.number_or({"long_mscale"}, scaling.number_or({"short_mscale"}, 1)) !=
        scaling.number_or({"short_mscale"}, 1))
      scaling.refuse({"long_mscale"}, "long_mscale and short_mscale differ, which is not supported here");
  }
  Experts experts = experts_of(f);
  experts.router.scores = RouterSpec::Scores::sparse_mixer;
  experts.router.jitter = static_cast<float>(f.number_or({"router_jitter_noise"}, 0.01, {.low = 0, .high = 10}));
  experts.gate = "w1";
  experts.down = "w2";
  experts.up = "w3";
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, experts); });
  spec.norm = {NormOp::Kind::layer, spec.norm.eps, true, true};
  spec.head_bias = f.flag_or({"lm_head_bias"}, false);
  spec.names.hf = {{"ffn_gate_inp", "block_sparse_moe.gate"}, {"ffn_exps", "block_sparse_moe.experts"}};
  return spec;
}

}  // namespace espalier
