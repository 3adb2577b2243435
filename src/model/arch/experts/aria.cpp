// Aria's text model: Llama with experts whose matrices stand inputs first, beside shared ones.
// Source: Aria (arXiv 2410.05993); transformers' AriaTextModel.
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"
#include "model/program/builder.h"

namespace espalier {

ModelSpec aria_text(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  Experts experts = experts_of(f);
  experts.router.scores = RouterSpec::Scores::softmax_of_chosen;
  experts.inner = f.count({"intermediate_size|moe_intermediate_size"}, ConfigLimits::inner);
  experts.shared_how = experts.how;
  experts.how = {};
  experts.fused = FusedExperts::turned;
  experts.shared_inner = f.count_or({"moe_num_shared_experts"}, 2, ConfigLimits::experts) * experts.inner;
  experts.shared_bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) {
    return pre_norm(attention, [experts](Builder& b, Rows x) {
      Experts of_file = experts;
      if (b.has_tensor(b.name("ffn_exps") + ".fc1.weight")) {
        of_file.fused_gate_up = "fc1";
        of_file.fused_down = "fc2";
      }
      return of_file(b, x);
    });
  });
  spec.names.hf = {{"ffn_gate_inp", "mlp.router"}};
  return spec;
}

}  // namespace espalier
