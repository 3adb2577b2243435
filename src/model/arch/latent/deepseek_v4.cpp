// DeepSeek-V4: several residual streams, attention over a window and compressed entries, experts everywhere, in the first
// layers chosen by the token. Source: DeepSeek-V4's report; transformers' DeepseekV4Model.
#include <fmt/format.h>

#include "model/arch/families.h"
#include "model/arch/latent/latent.h"
#include "model/blocks/attention/compressed_attention.h"
#include "model/blocks/residual/hyper_connections.h"

namespace espalier {
namespace {

// 0: a window alone; else positions of an entry.
struct Compression {
  int every = 0;
  bool chosen = false;  // small windows overlap, and an indexer chooses among them
};

Compression compression_of(const Fields& f, int layer) {
  const FieldName ratios{"compress_ratios", "attention.compress_ratios"};
  if (!f.has({"layer_types"}) && f.has(ratios)) {
    const int every = f.count_of(ratios, layer, 0, 1 << 16);
    return {every, every > 0 && every < 16};
  }
  const std::string otherwise =
      layer < 2 || layer % 2 == 0 ? "heavily_compressed_attention" : "compressed_sparse_attention";
  const std::string type = f.word_of({"layer_types"}, layer, otherwise);
  const Fields rates = f.at({"compress_rates"});
  if (type == "compressed_sparse_attention")
    return {f.count_or({"compress_rate_csa"}, rates.count_or({"compressed_sparse_attention"}, 4)), true};
  if (type == "heavily_compressed_attention")
    return {f.count_or({"compress_rate_hca"}, rates.count_or({"heavily_compressed_attention"}, 128)), false};
  if (type != "sliding_attention")
    f.refuse({"layer_types"}, fmt::format("layer_types has {}, which is not supported here; sliding_attention, "
                                          "compressed_sparse_attention and heavily_compressed_attention are",
                                          in_quotes(type)));
  return {};
}

// Layers with entries have a base and a scaling of their own, which does not make angles larger.
RopeSpec rope_of_layer(const Fields& f, int head_dim, bool compressed) {
  const double part = f.number_or({"partial_rotary_factor"}, 0, {.low = 0, .high = 1});
  const int dims = part > 0 ? static_cast<int>(part * head_dim)
                            : f.count_or({"qk_rope_head_dim", "rope.dimension_count"}, 64, ConfigLimits::head_dim);
  RopeWish wish{.head_dim = head_dim, .theta = f.number_or({"rope_theta", "rope.freq_base"}, 10000), .dims = dims};
  const Fields nested = f.at({"rope_parameters"});
  if (nested.has({"main"}) && nested.has({"compress"})) {
    wish.layer_type = compressed ? "compress" : "main";
    return rope_of(f, wish);
  }
  wish.own_theta = true;
  wish.scaled = compressed;
  if (compressed) wish.theta = f.number_or({"compress_rope_theta", "attention.compress_rope_freq_base"}, 160000);
  RopeSpec rope = rope_of(f, wish);
  rope.magnitude = 1.0f;
  return rope;
}

CompressedAttention attention_of(const Fields& f, int layer) {
  CompressedAttention a;
  const Compression compression = compression_of(f, layer);
  a.heads = f.count({"num_attention_heads", "attention.head_count"}, ConfigLimits::heads);
  a.head_dim = f.count_or({"head_dim", "attention.key_length"}, 512, ConfigLimits::value_dim);
  a.query_rank = f.count({"q_lora_rank", "attention.q_lora_rank"}, ConfigLimits::inner);
  a.window = f.integer_or({"sliding_window", "attention.sliding_window"}, 128, 1);
  a.groups = f.count({"o_groups", "attention.output_group_count"}, ConfigLimits::heads);
  a.group_rank = f.count({"o_lora_rank", "attention.output_lora_rank"}, ConfigLimits::inner);
  a.rope = rope_of_layer(f, std::max(2, a.head_dim), compression.every > 0);
  a.norm.eps = rms_eps(f);
  a.every = compression.every;
  a.overlapping = compression.chosen;
  if (compression.chosen) {
    a.index_heads = f.count_or({"index_n_heads", "attention.indexer.head_count"}, 64, ConfigLimits::heads);
    a.index_dim = f.count_or({"index_head_dim", "attention.indexer.key_length"}, 128, ConfigLimits::key_dim);
    a.index_kept = f.count_or({"index_topk", "attention.indexer.top_k"}, 512, ConfigLimits::positions);
  }
  if (a.head_dim < 1 || a.heads * a.head_dim > ConfigLimits::attention_width || a.heads % a.groups != 0 ||
      a.every > 1 << 16 ||
      (compression.chosen && (a.index_dim < a.rope.dims() || a.index_heads < 1 || a.index_kept < 1)))
    f.refuse({"o_groups", "attention.output_group_count"},
             fmt::format("{} heads of {} values in {} groups, with {} index heads of {} that keep {}, are not possible",
                         a.heads, a.head_dim, a.groups, a.index_heads, a.index_dim, a.index_kept));
  return a;
}

Experts experts_of_layer(const Fields& f, int layer) {
  Experts e = deepseek_experts(f, {});
  const std::string scoring = f.word_or({"scoring_func"}, "sqrtsoftplus");
  if (f.is_gguf() || scoring == "sqrtsoftplus") e.router.scores = RouterSpec::Scores::sqrt_softplus;
  e.router.renormalise = true;
  e.correction = true;
  e.shared_inner = e.inner;
  const int hashed = f.count_or({"num_hash_layers", "hash_layer_count"}, 3);
  e.by_token = f.has({"mlp_layer_types"}) ? f.word_of({"mlp_layer_types"}, layer, "moe") == "hash_moe" : layer < hashed;
  const auto limit =
      static_cast<float>(f.number_of({"swiglu_limit", "swiglu_clamp_exp"}, f.is_gguf() ? layer : -1, 10));
  if (limit > 0) e.how.gate_limit = e.how.up_limit = limit;
  e.gate = "w1";
  e.down = "w2";
  e.up = "w3";
  return e;
}

}  // namespace

ModelSpec deepseek_v4(const Fields& f) {
  HyperConnections streams;
  streams.streams = static_cast<int>(f.integer_or({"hc_mult", "hyper_connection.count"}, 4, 1, 64));
  streams.rounds = std::max(1, f.count_or({"hc_sinkhorn_iters", "hyper_connection.sinkhorn_iterations"}, 20, 1000));
  streams.eps = static_cast<float>(f.number_or({"hc_eps", "hyper_connection.epsilon"}, 1e-6));
  streams.norm_eps = rms_eps(f);
  // GGUF files count layers without those that predict further tokens.
  const int layers = f.count({"num_hidden_layers", "block_count"}, ConfigLimits::layers);
  ModelSpec spec = decoder(
      f,
      [&](int layer) {
        return streams.layer({{attention_of(f, layer), "attn_norm", "hc_attn_fn", "hc_attn_base", "hc_attn_scale"},
                              {experts_of_layer(f, layer), "ffn_norm", "hc_ffn_fn", "hc_ffn_base", "hc_ffn_scale"}});
      },
      layers);
  spec.enter = [streams](Builder& b, Rows x) { return streams.enter(b, x); };
  spec.leave = [streams](Builder& b, Rows x) { return streams.leave(b, x); };
  spec.names.hf = {{"token_embd", "model.embed_tokens|model.embed"},
                   {"output", "lm_head|head"},
                   {"attn_norm", "attn_norm|input_layernorm"},
                   {"ffn_norm", "ffn_norm|post_attention_layernorm"},
                   {"attn_q_a", "attn.wq_a"},
                   {"attn_q_a_norm", "attn.q_norm"},
                   {"attn_q_b", "attn.wq_b"},
                   {"attn_kv", "attn.wkv"},
                   {"attn_kv_a_norm", "attn.kv_norm|attn.norm"},
                   {"attn_output_a", "attn.wo_a"},
                   {"attn_output_b", "attn.wo_b"},
                   {"attn_sinks", "attn.attn_sink"},
                   {"attn_compressor_kv", "attn.compressor.wkv"},
                   {"attn_compressor_gate", "attn.compressor.wgate"},
                   {"attn_compressor_ape", "attn.compressor.ape"},
                   {"attn_compressor_norm", "attn.compressor.norm"},
                   {"indexer_compressor_kv", "attn.indexer.compressor.wkv"},
                   {"indexer_compressor_gate", "attn.indexer.compressor.wgate"},
                   {"indexer_compressor_ape", "attn.indexer.compressor.ape"},
                   {"indexer_compressor_norm", "attn.indexer.compressor.norm"},
                   {"indexer.attn_q_b", "attn.indexer.wq_b"},
                   {"indexer.proj", "attn.indexer.weights_proj"},
                   {"ffn_gate_inp", "ffn.gate"},
                   {"exp_probs_b", "ffn.gate.bias"},
                   {"ffn_gate_tid2eid", "ffn.gate.tid2eid"},
                   {"ffn_exps", "ffn.experts"},
                   {"ffn_gate_shexp", "ffn.shared_experts.w1"},
                   {"ffn_down_shexp", "ffn.shared_experts.w2"},
                   {"ffn_up_shexp", "ffn.shared_experts.w3"},
                   {"output_hc_fn", "model.hc_head_fn|model.hc_head.hc_fn"},
                   {"output_hc_base", "model.hc_head_base|model.hc_head.hc_base"},
                   {"output_hc_scale", "model.hc_head_scale|model.hc_head.hc_scale"}};
  return spec;
}

}  // namespace espalier
