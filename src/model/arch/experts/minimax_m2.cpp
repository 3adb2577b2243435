// MiniMax-M2: queries and keys normed over their whole width, a part of each head turns, a sigmoid router with a
// correction. Source: MiniMax-M2 model card; transformers' MiniMaxM2Model.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"

namespace espalier {

ModelSpec minimax_m2(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 5e6, .part = 1});
  if (f.flag_or({"use_qk_norm"}, true)) attention.head_norm = Attention::HeadNorm::whole;
  Experts experts = deepseek_experts(f, {});
  experts.router.renormalise = true;
  experts.router.renormalise_eps = 0;
  experts.correction = f.flag_or({"use_routing_bias"}, true);
  experts.gate = "w1";
  experts.down = "w2";
  experts.up = "w3";
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, experts); });
  spec.names.hf = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                   {"ffn_exps", "block_sparse_moe.experts"},
                   {"exp_probs_b", "block_sparse_moe.e_score_correction_bias"}};
  return spec;
}

}  // namespace espalier
