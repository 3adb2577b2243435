// JetMoE: experts of attention and of MLPs. DiffLlama: Llama with differential attention.
// Source: JetMoE (arXiv 2404.07413); Differential Transformer (arXiv 2410.05258); transformers' classes.
#include "model/arch/families.h"
#include "model/blocks/attention/differential_attention.h"
#include "model/blocks/attention/expert_attention.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

constexpr Norm kJetNorm{.kind = NormOp::Kind::rms, .eps = 1e-6f};  // of layers, whatever the checkpoint says

}  // namespace

ModelSpec jetmoe(const Fields& f) {
  Experts experts = experts_of(f);
  experts.router.scores = RouterSpec::Scores::softmax_of_chosen;
  experts.fused = FusedExperts::rows;
  experts.fused_gate_up = "input_linear";
  experts.fused_down = "output_linear";
  experts.sum_bias = "ffn_moe_bias";
  const Attention heads = grouped_attention(f);
  const ExpertAttention attention{
      .router = experts.router, .kv_heads = heads.kv_heads, .head_dim = heads.head_dim, .rope = *heads.rope};
  if (std::int64_t{heads.kv_heads} * heads.head_dim * experts.router.count > ConfigLimits::attention_width)
    f.refuse({"num_local_experts"}, "the heads of all experts are wider than is supported here");
  ModelSpec spec = decoder(f, [&](int) {
    Layer layer;
    layer.body = [attention, experts](Builder& b, Rows x) {
      b.add(x, attention(b, b.norm(x, kJetNorm, "attn_norm")));
      b.add(x, experts(b, b.norm(x, kJetNorm, "ffn_norm")));
      return x;
    };
    return layer;
  });
  spec.tied_head = f.flag_or({"tie_word_embeddings"}, true);
  spec.names.hf = {{"attn_q_exps", "self_attention.experts.input_linear"},
                   {"attn_output_exps", "self_attention.experts.output_linear"},
                   {"attn_moe_gate_inp", "self_attention.experts.router.layer"},
                   {"attn_moe_bias", "self_attention.experts.bias"},
                   {"attn_kv", "self_attention.kv_proj"},
                   {"ffn_gate_inp", "mlp.router.layer"},
                   {"ffn_exps", "mlp"},
                   {"ffn_moe_bias", "mlp.bias"}};
  return spec;
}

ModelSpec diffllama(const Fields& f) {
  const Attention heads = grouped_attention(f);
  const DifferentialAttention attention{.heads = heads.heads,
                                        .kv_heads = heads.kv_heads,
                                        .head_dim = heads.head_dim,
                                        .bias = f.flag_or({"attention_bias"}, false),
                                        .rope = *heads.rope,
                                        .norm_eps = heads.query_norm.eps};
  if (heads.kv_heads % 2 != 0 || 2 * heads.head_dim > ConfigLimits::value_dim)
    f.refuse({"num_key_value_heads"}, "num_key_value_heads must be even, and head_dim at most 256, in DiffLlama");
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(attention, mlp); });
  for (const char* role : {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"})
    spec.names.hf.push_back({role, std::string("self_attn.") + role});
  return spec;
}

}  // namespace espalier
