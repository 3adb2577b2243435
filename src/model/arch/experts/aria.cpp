// Aria's text model: Llama with experts whose matrices stand inputs first, beside shared ones. CWM: Llama with windows.
// HyperCLOVA X: Granite with norms behind both halves.
// Source: Aria (arXiv 2410.05993), CWM and HyperCLOVA X model cards; transformers' classes.
#include "model/arch/families.h"
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

ModelSpec cwm(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 1e6});
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  const std::int64_t window = f.says_null({"sliding_window"}) ? 0 : f.integer_or({"sliding_window"}, 8192);
  return decoder(f, [&](int layer) {
    attention.visibility = Visibility::window(layer_is(f, layer, "sliding_attention", layer % 4 != 0) ? window : 0);
    return pre_norm(attention, mlp);
  });
}

// Its logits are multiplied, where Granite's are divided.
ModelSpec hyperclovax(const Fields& f) {
  Attention attention = granite_attention(f);
  if (!f.has({"attention_multiplier"})) attention.scale = 0;
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  const bool around = f.flag_or({"use_post_norm"}, true);
  ModelSpec spec = decoder(f, [&](int) { return around ? sandwich(attention, mlp) : pre_norm(attention, mlp); });
  granite_scales(f, spec);
  spec.logit_scale = static_cast<float>(f.number_or({"logits_scaling"}, 1));
  spec.names.hf = {{"post_attention_norm", "post_norm1"}, {"post_ffw_norm", "post_norm2"}};
  return spec;
}

}  // namespace espalier
