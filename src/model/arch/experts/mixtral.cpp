// Mixtral: Mistral with eight experts, of which two are chosen. Source: Mixtral of Experts (arXiv 2401.04088).
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

Experts experts_of(const Fields& f) {
  Experts e;
  e.router.count = f.count({"num_local_experts|num_experts|n_routed_experts|moe_num_experts", "expert_count"},
                           ConfigLimits::experts);
  e.router.chosen =
      f.count({"num_experts_per_tok|moe_topk|num_experts_per_token|moe_k", "expert_used_count"}, e.router.count);
  e.inner = f.count({"moe_intermediate_size|expert_ffn_hidden_size|intermediate_size",
                     "expert_feed_forward_length|feed_forward_length"},
                    ConfigLimits::inner);
  e.how.activation.kind = activation_of(f);
  return e;
}

ModelSpec mixtral(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  attention.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 0));
  Experts experts = experts_of(f);
  experts.router.renormalise = true;
  experts.gate = "w1";
  experts.down = "w2";
  experts.up = "w3";
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, experts); });
  spec.names.hf = {{"ffn_gate_inp", "block_sparse_moe.gate"}, {"ffn_exps", "block_sparse_moe.experts"}};
  return spec;
}

}  // namespace espalier
