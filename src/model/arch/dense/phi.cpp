// Phi-2: attention and MLP side by side, biases everywhere. Phi-3 and Phi-4: Llama with fused tensors and longrope.
// PhiMoE: LayerNorms, sixteen experts. Source: Phi-3 technical report (arXiv 2404.14219).
#include "model/arch/families.h"
#include "model/blocks/channels/experts.h"

namespace espalier {

ModelSpec phi(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
  attention.qkv_bias = attention.out_bias = true;
  if (f.is_gguf()) attention.fused = FusedQkv::side_by_side;
  if (f.flag_or({"qk_layernorm"}, false)) {
    attention.head_norm = Attention::HeadNorm::each;
    attention.query_norm = {NormOp::Kind::layer, attention.query_norm.eps, true, true};
  }
  Mlp mlp;
  mlp.inner = f.count({"intermediate_size", "feed_forward_length"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f, "gelu_new");
  mlp.gated = false;
  mlp.bias = true;
  ModelSpec spec = decoder(f, [&](int) { return parallel(attention, mlp); });
  spec.norm.kind = NormOp::Kind::layer;
  spec.norm.bias = spec.head_bias = true;
  spec.names.hf = {{"output_norm", "model.final_layernorm"},
                   {"attn_output", "self_attn.dense"},
                   {"attn_q_norm", "self_attn.q_layernorm"},
                   {"attn_k_norm", "self_attn.k_layernorm"},
                   {"ffn_up", "mlp.fc1"},
                   {"ffn_down", "mlp.fc2"}};
  return spec;
}

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

ModelSpec phi3(const Fields& f) {
  Attention attention = attention_heads(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 1});
  attention.fused = FusedQkv::side_by_side;
  attention.visibility = Visibility::window(f.integer_or({"sliding_window", "attention.sliding_window"}, 0));
  Mlp mlp = gated_mlp(f);
  mlp.fused = true;
  return decoder(f, [&](int) { return pre_norm(attention, mlp); });
}

}  // namespace espalier
