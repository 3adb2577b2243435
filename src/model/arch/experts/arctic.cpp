// Snowflake Arctic: an MLP, and experts that read the row from before attention. Source: its model card; llama.cpp,
// vLLM.
#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {

// x + attention + mlp of the sum, and experts of the row that attention read.
ModelSpec arctic(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.pairs_in_gguf = true;
  Mlp mlp;
  mlp.inner = hidden_size(f);
  Experts experts = experts_of(f);
  experts.router.renormalise = true;
  experts.gate = "w1";
  experts.up = "w3";
  experts.down = "w2";
  Layer layer;
  layer.body = [=](Builder& b, Rows x) {
    const Norm& norm = b.spec().norm;
    const Rows routed = b.norm(x, norm, "ffn_norm_exps");
    b.add(x, attention(b, b.norm(x, norm, "attn_norm")));
    b.add(x, mlp(b, b.norm(x, norm, "ffn_norm")));
    b.add(x, experts(b, routed));
    return x;
  };
  if (!f.flag_or({"use_residual|parallel_attn_mlp_res"}, true))
    f.refuse({"parallel_attn_mlp_res"}, "parallel_attn_mlp_res must be true for Arctic here");
  if (f.count_or({"moe_layer_frequency"}, 1) != 1)
    f.refuse({"moe_layer_frequency"}, "moe_layer_frequency must be 1 for Arctic here");
  ModelSpec spec = decoder(f, [&](int) { return layer; });
  spec.names.hf = {{"ffn_norm", "residual_layernorm"},      {"ffn_norm_exps", "post_attention_layernorm"},
                   {"ffn_gate", "residual_mlp.w1"},         {"ffn_up", "residual_mlp.w3"},
                   {"ffn_down", "residual_mlp.w2"},         {"ffn_gate_inp", "block_sparse_moe.gate"},
                   {"ffn_exps", "block_sparse_moe.experts"}};
  return spec;
}

}  // namespace espalier
