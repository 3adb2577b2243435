// Hy3: normed query and key heads, a sigmoid router with a correction. Source: transformers' HYV3Model.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec hy_v3(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .theta = 11158840});
  attention.head_norm = Attention::HeadNorm::each;
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  Experts experts = deepseek_experts(f, {});
  experts.router.renormalise = true;
  experts.shared_bias = mlp.bias;
  ModelSpec spec = decoder(
      f, [&](int layer) { return pre_norm(attention, is_dense_layer(f, layer, 1) ? Block(mlp) : Block(experts)); });
  spec.names.hf = {{"ffn_gate_inp", "mlp.router.gate"},
                   {"exp_probs_b", "mlp.expert_bias"},
                   {"ffn_gate_shexp", "mlp.shared_mlp.gate_proj"},
                   {"ffn_up_shexp", "mlp.shared_mlp.up_proj"},
                   {"ffn_down_shexp", "mlp.shared_mlp.down_proj"}};
  bring_draft_layer(spec, pre_norm(attention, experts), {{"nextn.shared_head_norm", "final_layernorm"}});
  return spec;
}

}  // namespace espalier
