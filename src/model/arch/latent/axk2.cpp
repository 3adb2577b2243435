// A.X-K2: latent attention with an indexer, norms with gates. Source: transformers' AXK2Model.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/latent/indexed.h"
#include "model/arch/latent/latent.h"
#include "model/blocks/channels/experts.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// What a block reads is multiplied by a gate that comes from itself through few dimensions.
Block self_gated(const Block& block, int rank, std::string_view down, std::string_view up) {
  return [=](Builder& b, Rows x) {
    const Rows low = b.activate(b.matmul(x, {b.matrix(down, rank, x.width)}), {ActivationKind::silu});
    const Rows by = b.matmul(low, {b.matrix(up, x.width, rank)}), gated = b.buffer(x.width);
    b.emit(CombineOp{.in = x, .out = gated, .gate = by, .gate_activation = ActivationKind::sigmoid});
    return block(b, gated);
  };
}

}  // namespace

ModelSpec axk2(const Fields& f) {
  LatentAttention a = latent_attention(f);
  a.indexer = indexer_of(f, a, 16, false);
  a.gate = LatentAttention::Gate::in_query;
  const Experts experts = deepseek_experts(f, {});
  const int rank = static_cast<int>(f.integer_or({"gated_norm_rank"}, 16, 1, ConfigLimits::inner));
  ModelSpec spec = decoder(f, [&](int layer) {
    const Block mixer = self_gated(a, rank, "attn_norm_down", "attn_norm_up");
    if (is_dense_layer(f, layer, 1)) return pre_norm(mixer, gated_mlp(f));
    Layer sparse = pre_norm(mixer, self_gated(experts, rank, "ffn_norm_down", "ffn_norm_up"));
    sparse.halves.back().before = "ffn_norm_gated";
    return sparse;
  });
  spec.names.hf = {{"attn_norm", "input_layernorm.norm"},
                   {"ffn_norm_gated", "post_attention_layernorm.norm"},
                   {"attn_norm_down", "input_layernorm.W_down|input_layernorm.mlp.fc1"},
                   {"attn_norm_up", "input_layernorm.W_up|input_layernorm.mlp.fc2"},
                   {"ffn_norm_down", "post_attention_layernorm.W_down|post_attention_layernorm.mlp.fc1"},
                   {"ffn_norm_up", "post_attention_layernorm.W_up|post_attention_layernorm.mlp.fc2"},
                   {"attn_q_b", "self_attn.q_b_proj|self_attn.q_gate_proj"}};
  return spec;
}

}  // namespace espalier
