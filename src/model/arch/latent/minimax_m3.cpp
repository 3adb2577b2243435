// MiniMax-M3: grouped attention that reads runs of positions which an indexer chooses for each KV head, experts with
// clamped gates beside a shared one. Source: MiniMax-M3; transformers' MiniMaxM3VLTextModel.
#include <fmt/format.h>

#include "model/arch/families.h"
#include "model/arch/latent/latent.h"

namespace espalier {
namespace {

Indexer run_indexer(const Fields& f, const Attention& attention) {
  const Fields own = f.at({"sparse_attention_config"});
  const auto count = [&](FieldName name, FieldName old, int otherwise) {
    return own.has(old) ? own.count_or(old, otherwise) : f.count_or(name, otherwise);
  };
  Indexer i;
  i.weighted = false;
  i.heads = count({"index_n_heads", "attention.indexer.head_count"}, {"sparse_num_index_heads"}, 4);
  i.dim = count({"index_head_dim", "attention.indexer.key_length"}, {"sparse_index_dim"}, 128);
  i.run = count({"index_block_size", "attention.indexer.block_size"}, {"sparse_block_size"}, 128);
  i.kept = count({"index_topk_blocks", "attention.indexer.top_k"}, {"sparse_topk_blocks"}, 16);
  i.local_runs = count({"index_local_blocks", "attention.indexer.local_blocks"}, {"sparse_local_block"}, 1);
  i.rope = attention.rope;
  i.key_norm = attention.query_norm;
  i.query_norm = attention.query_norm;
  const FieldName heads{"index_n_heads", "attention.indexer.head_count"};
  if (i.heads != attention.kv_heads && i.heads != 1)
    f.refuse(heads,
             fmt::format("{} is {}, but there must be one index head for each of the {} KV heads, or one for all",
                         f.path(heads), i.heads, attention.kv_heads));
  if (i.dim < attention.rope->dims() || i.dim > ConfigLimits::key_dim || i.run < 1 || i.kept < 1 ||
      i.local_runs > i.kept)
    f.refuse(heads,
             fmt::format("an indexer of {} dimensions that keeps {} runs of {} positions, {} of them the last, is "
                         "not possible",
                         i.dim, i.kept, i.run, i.local_runs));
  return i;
}

bool is_sparse(const Fields& f, int layer) {
  const Fields own = f.at({"sparse_attention_config"});
  if (f.has({"layer_types"})) return f.word_of({"layer_types"}, layer, "") == "minimax_m3_sparse";
  if (f.is_gguf()) return true;  // such files do not say; those layers are that have an indexer's tensors
  return own.has({"sparse_attention_freq"}) && own.count_of({"sparse_attention_freq"}, layer, 0) != 0;
}

bool is_dense(const Fields& f, int layer) {
  if (f.is_gguf() || f.has({"mlp_layer_types"}) || !f.has({"moe_layer_freq"})) return is_dense_layer(f, layer, 0);
  return f.count_of({"moe_layer_freq"}, layer, 1) == 0;
}

Attention minimax_attention(const Fields& f) {
  Attention a = attention_heads(f);
  const bool says = f.has({"partial_rotary_factor"}) || f.at({"rope_parameters"}).has({"partial_rotary_factor"});
  a.rope = rope_of(
      f,
      {.head_dim = a.head_dim, .theta = 5e6, .part = 1, .dims = says ? 0 : f.count_or({"rotary_dim"}, 0, a.head_dim)});
  a.head_norm = Attention::HeadNorm::each;
  a.query_norm.one_plus = true;
  return a;
}

}  // namespace

ModelSpec minimax_m3(const Fields& f) {
  const Attention full = minimax_attention(f);
  Attention sparse = full;
  sparse.indexer = run_indexer(f, full);
  Experts experts = deepseek_experts(f, {});
  experts.how.activation = {.kind = ActivationKind::silu,
                            .slope = static_cast<float>(f.number_or({"swiglu_alpha"}, 1.702))};
  experts.how.gate_limit = experts.how.up_limit = static_cast<float>(f.number_or({"swiglu_limit"}, 7.0));
  experts.how.up_offset = 1.0f;
  experts.fused = FusedExperts::rows;
  experts.router.renormalise = true;
  experts.router.renormalise_eps = 0.0f;
  experts.router.scale = static_cast<float>(f.number_or({"routed_scaling_factor", "expert_weights_scale"}, 2.0));
  experts.inner = f.count({"intermediate_size", "expert_feed_forward_length"}, ConfigLimits::inner);
  experts.shared_inner = f.is_gguf() ? f.count_or({"", "expert_shared_count"}, 1, 1024) * experts.inner
                                     : f.count_or({"shared_intermediate_size"}, 3072, ConfigLimits::inner);
  experts.shared_fused = true;
  Mlp mlp;
  mlp.inner = f.count_or({"dense_intermediate_size", "feed_forward_length"}, 12288, ConfigLimits::inner);
  mlp.how = experts.how;
  mlp.fused = true;
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(is_sparse(f, layer) ? sparse : full, is_dense(f, layer) ? Block(mlp) : Block(experts));
  });
  spec.norm.one_plus = true;
  spec.names.gguf = {{"indexer.attn_q", "indexer.q_proj"}, {"indexer.attn_k", "indexer.k_proj"}};
  spec.names.hf = {
      {"indexer.attn_q", "self_attn.indexer.q_proj|self_attn.index_q_proj"},
      {"indexer.attn_k", "self_attn.indexer.k_proj|self_attn.index_k_proj"},
      {"indexer.q_norm", "self_attn.indexer.q_norm|self_attn.index_q_norm"},
      {"indexer.k_norm", "self_attn.indexer.k_norm|self_attn.index_k_norm"},
      {"ffn_gate_inp", "mlp.gate|block_sparse_moe.gate"},
      {"exp_probs_b", "mlp.gate.e_score_correction_bias|block_sparse_moe.e_score_correction_bias"},
      {"ffn_exps", "mlp.experts|block_sparse_moe.experts"},
      {"ffn_gate_up_shexp", "mlp.shared_experts.gate_up_proj|block_sparse_moe.shared_experts.gate_up_proj"},
      {"ffn_gate_shexp", "mlp.shared_experts.gate_proj|block_sparse_moe.shared_experts.gate_proj"},
      {"ffn_up_shexp", "mlp.shared_experts.up_proj|block_sparse_moe.shared_experts.up_proj"},
      {"ffn_down_shexp", "mlp.shared_experts.down_proj|block_sparse_moe.shared_experts.down_proj"}};
  return spec;
}

}  // namespace espalier
