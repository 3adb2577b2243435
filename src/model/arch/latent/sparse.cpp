// Latent attention that reads the positions which an indexer has chosen: DeepSeek-V3.2, GLM-5 (layers may share the
// choice of an earlier one), A.X-K2 (norms with gates), HY-V4 (with several residual streams, sinks and gates).
// Source: DeepSeek-V3.2-Exp; transformers' DeepseekV32Model, GlmMoeDsaModel, AXK2Model, HYV4Model.
#include <fmt/format.h>

#include "model/arch/families.h"
#include "model/arch/latent/latent.h"
#include "model/blocks/residual/hyper_connections.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

Indexer indexer_of(const Fields& f, const LatentAttention& a, int heads, bool pairs) {
  Indexer i;
  i.heads = f.count_or({"index_n_heads", "attention.indexer.head_count"}, heads, ConfigLimits::heads);
  i.dim = f.count_or({"index_head_dim", "attention.indexer.key_length"}, 128, ConfigLimits::key_dim);
  i.kept = f.count_or({"index_topk", "attention.indexer.top_k"}, 2048, ConfigLimits::positions);
  i.rope = a.rope;
  i.pairs = pairs;
  i.key_norm = {.kind = NormOp::Kind::layer, .eps = 1e-6f, .bias = true};
  if (i.heads < 1 || i.kept < 1 || i.dim < a.rotated)
    f.refuse({"index_head_dim", "attention.indexer.key_length"},
             fmt::format("an indexer of {} heads of {} dimensions that keeps {} positions is not possible; it needs at "
                         "least one head, one position and the {} rotated dimensions",
                         i.heads, i.dim, i.kept, a.rotated));
  if (a.query_rank == 0)
    f.refuse({"q_lora_rank", "attention.q_lora_rank"}, "q_lora_rank is missing, but the indexer reads its vector");
  return i;
}

// Whether a layer reads what an earlier one has chosen.
bool shares(const Fields& f, int layer, int every, int offset) {
  if (f.has({"indexer_types"})) return f.word_of({"indexer_types"}, layer, "full") == "shared";
  if (f.is_gguf()) return !f.flag_of({"", "attention.indexer.types"}, layer, true);
  const FieldName pattern{"index_topk_pattern"};
  if (const Json* value = f.find(pattern); value != nullptr && value->is_string()) {
    const std::string letters = f.word_or(pattern, "");
    return std::cmp_less(layer, letters.size()) && letters[static_cast<std::size_t>(layer)] == 'S';
  }
  if (f.has(pattern)) return f.word_of(pattern, layer, "full") == "shared";
  return std::max(layer - offset + 1, 0) % std::max(every, 1) != 0;
}

// What a block reads is multiplied by a gate that comes from itself through few dimensions.
Block self_gated(Block block, int rank, std::string_view down, std::string_view up) {
  return [=](Builder& b, Rows x) {
    const Rows low = b.activate(b.matmul(x, {b.matrix(down, rank, x.width)}), {ActivationKind::silu});
    const Rows by = b.matmul(low, {b.matrix(up, x.width, rank)}), gated = b.buffer(x.width);
    b.emit(CombineOp{.in = x, .out = gated, .gate = by, .gate_activation = ActivationKind::sigmoid});
    return block(b, gated);
  };
}

LatentAttention sharing(const Fields& f, LatentAttention a, const Indexer& indexer, int layer, int every, int offset) {
  a.shares_choice = shares(f, layer, every, offset);
  if (!a.shares_choice) a.indexer = indexer;
  if (a.shares_choice && layer == 0)
    f.refuse({"indexer_types", "attention.indexer.types"},
             "the first layer shares the choice of an indexer, but none is before it");
  return a;
}

Block mlp_of(const Fields& f, int layer, int dense_first, const Experts& experts) {
  return is_dense_layer(f, layer, dense_first) ? Block(gated_mlp(f)) : Block(experts);
}

}  // namespace

ModelSpec deepseek_v32(const Fields& f) {
  LatentAttention a = latent_attention(f);
  a.pairs = true;
  a.indexer = indexer_of(f, a, 64, false);
  const Experts experts = deepseek_experts(f, {});
  ModelSpec spec = decoder(f, [&](int layer) { return pre_norm(a, mlp_of(f, layer, 3, experts)); });
  bring_draft_layer(spec, pre_norm(a, experts));
  return spec;
}

ModelSpec glm_moe_dsa(const Fields& f) {
  LatentAttention a = latent_attention(f);
  a.pairs = true;
  const Indexer indexer = indexer_of(f, a, 32, true);
  const Experts experts = deepseek_experts(f, {});
  const int every = f.count_or({"index_topk_freq"}, 1), offset = f.count_or({"index_skip_topk_offset"}, 2);
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(sharing(f, a, indexer, layer, every, offset), mlp_of(f, layer, 3, experts));
  });
  LatentAttention drafting = a;
  drafting.indexer = indexer;
  bring_draft_layer(spec, pre_norm(drafting, experts));
  return spec;
}

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

ModelSpec hy_v4(const Fields& f) {
  LatentAttention a = latent_attention(f);
  a.pairs = false;
  a.sinks = true;
  a.gate = LatentAttention::Gate::by_value;
  HyperConnections streams;
  streams.streams = static_cast<int>(f.integer_or({"hc_mult"}, 4, 1, 64));
  streams.eps = streams.after_eps = static_cast<float>(f.number_or({"hc_eps"}, 1e-6));
  streams.after_factor = static_cast<float>(f.number_or({"hc_magnitude"}, 2.0));
  streams.norm_eps = rms_eps(f);
  Indexer indexer = indexer_of(f, a, 16, false);
  indexer.key_norm.eps = streams.norm_eps;
  indexer.rotate_from = indexer.dim - a.rotated;
  Experts experts = deepseek_experts(f, {});
  experts.fused = FusedExperts::rows;
  experts.shared_how = experts.how;
  if (const auto limit = static_cast<float>(f.number_or({"swiglu_limit"}, 10)); limit > 0)
    experts.how.gate_limit = experts.how.up_limit = limit;
  ModelSpec spec = decoder(f, [&](int layer) {
    return streams.layer(
        {{sharing(f, a, indexer, layer, 4, 1), "attn_norm", "hc_attn_fn", "hc_attn_base", "hc_attn_scale"},
         {mlp_of(f, layer, 1, experts), "ffn_norm", "hc_ffn_fn", "hc_ffn_base", "hc_ffn_scale"}});
  });
  spec.enter = [streams](Builder& b, Rows x) { return streams.enter(b, x); };
  spec.leave = [streams](Builder& b, Rows x) { return streams.leave(b, x); };
  spec.names.hf = {{"attn_sinks", "self_attn.learnable_sink_param|self_attn.sinks"},
                   {"attn_gate", "self_attn.linear_gate|self_attn.gate_proj"},
                   {"ffn_gate", "mlp.linear_gate|mlp.gate_proj"},
                   {"ffn_gate_shexp", "mlp.shared_experts.linear_gate|mlp.shared_experts.gate_proj"},
                   {"hc_attn_fn", "hc_pre.hc_attn_layer.hc_fn|attn_hc.fn"},
                   {"hc_attn_base", "hc_pre.hc_attn_layer.hc_base|attn_hc.base"},
                   {"hc_attn_scale", "hc_pre.hc_attn_layer.hc_scale|attn_hc.scale"},
                   {"hc_ffn_fn", "hc_pre.hc_mlp_layer.hc_fn|ffn_hc.fn"},
                   {"hc_ffn_base", "hc_pre.hc_mlp_layer.hc_base|ffn_hc.base"},
                   {"hc_ffn_scale", "hc_pre.hc_mlp_layer.hc_scale|ffn_hc.scale"},
                   {"output_hc_fn", "model.hc_pre.hc_head.hc_head_fn|model.hc_head.hc_fn"},
                   {"output_hc_base", "model.hc_pre.hc_head.hc_head_base|model.hc_head.hc_base"},
                   {"output_hc_scale", "model.hc_pre.hc_head.hc_head_scale|model.hc_head.hc_scale"}};
  return spec;
}

}  // namespace espalier
