// JetMoE: experts of attention and of MLPs. Source: JetMoE (arXiv 2404.07413); transformers' JetMoeModel.
#include "model/arch/families.h"
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

}  // namespace espalier
