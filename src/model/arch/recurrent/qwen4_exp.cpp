// Qwen4-Exp: gated delta nets in three of four layers, the others attention that reads windows which an indexer
// chooses; experts everywhere; several residual streams with gates. Source: transformers' Qwen4ExpTextModel.
#include <fmt/format.h>

#include <algorithm>

#include "model/arch/families.h"
#include "model/arch/recurrent/qwen4_ngrams.h"
#include "model/blocks/attention/indexer.h"
#include "model/blocks/channels/experts.h"
#include "model/blocks/recurrent/delta_rule.h"
#include "model/blocks/residual/gated_residual.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// GatedNorms of delta nets: silu or sigmoid.
GatedNormForm qwen4_gate(const Fields& f) {
  const ActivationKind kind =
      activation_in(f, {f.has({"output_gate_type"}) ? "output_gate_type" : "hidden_act"}, "silu");
  if (kind == ActivationKind::sigmoid) return GatedNormForm::norm_then_sigmoid;
  if (kind != ActivationKind::silu) f.refuse({"output_gate_type"}, "output_gate_type must be silu or sigmoid");
  return GatedNormForm::norm_then_silu;
}

// GGUF files have a length of windows for each layer, 0 where attention is not.
int window_length(const Fields& f) {
  if (!f.is_gguf()) return f.count({"indexer_compress_ratio"}, 4096);
  int longest = 1;
  for (const std::int64_t length : f.integers({"", "attention.compress_ratios"}))
    longest = std::max(longest, static_cast<int>(std::clamp<std::int64_t>(length, 1, 4096)));
  return longest;
}

Indexer window_indexer(const Fields& f, const Attention& attention) {
  Indexer i;
  i.heads = f.count({"indexer_n_heads", "attention.indexer.head_count"}, ConfigLimits::heads);
  i.dim = f.count({"indexer_head_dim", "attention.indexer.key_length"}, ConfigLimits::key_dim);
  const int budget = f.count({"indexer_budget", "attention.indexer.top_k"}, ConfigLimits::window);
  i.weighted = false;
  i.summed = true;
  i.every = window_length(f);
  i.kept = budget / i.every;
  i.rope = attention.rope;
  i.key_norm = i.query_norm.emplace(attention.query_norm);
  if (f.count_or({"indexer_kv_heads"}, 1) != 1) f.refuse({"indexer_kv_heads"}, "indexer_kv_heads must be 1");
  if (budget % i.every != 0 || i.rope->dims() > i.dim || std::int64_t{i.heads} * i.dim > ConfigLimits::attention_width)
    f.refuse(
        {"indexer_budget"},
        fmt::format("an indexer of {} heads of {} dimensions, {} of them turned, that keeps {} positions in windows of "
                    "{} is not possible",
                    i.heads, i.dim, i.rope->dims(), budget, i.every));
  return i;
}

constexpr GatedResidual::Mixer kOfMixer{"hc_attn_norm", "hc_attn_down", "hc_attn_up", "hc_attn_inject"},
    kOfExperts{"hc_ffn_norm", "hc_ffn_down", "hc_ffn_up", "hc_ffn_inject"},
    kOfModel{"output_hc_norm", "output_hc_down", "output_hc_up"};

std::vector<Names::Entry> qwen4_names() {
  std::vector<Names::Entry> names = qwen_next_names();
  const auto mixer = [&](const GatedResidual::Mixer& roles, const std::string& stem) {
    names.push_back({roles.norm, stem + ".hc_norm"});
    names.push_back({roles.down, stem + ".input_mix_weight_down"});
    names.push_back({roles.up, stem + ".input_mix_weight_up"});
    if (!roles.weights.empty()) names.push_back({roles.weights, stem + ".block_inject_weight"});
  };
  mixer(kOfMixer, "attn_hyper_connection");
  mixer(kOfExperts, "mlp_hyper_connection");
  mixer(kOfModel, "model.hyper_connection_mixer");
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"ple_table", "ple_embedding.ngram_embedding"},
                                                                       {"ple_key", "key_proj"},
                                                                       {"ple_value", "value_proj"},
                                                                       {"ple_norm_key", "norm_key"},
                                                                       {"ple_norm_query", "norm_query"},
                                                                       {"ple_norm_conv", "norm_conv"},
                                                                       {"ple_conv1d", "conv1d"}})
    names.push_back({role, std::string("ple.") + name});
  names.push_back({"indexer.attn_qk", "self_attn.indexer.index_qk_proj"});
  names.push_back({"indexer.q_norm", "self_attn.indexer.q_layernorm"});
  names.push_back({"indexer.k_norm", "self_attn.indexer.k_layernorm"});
  return names;
}

bool qwen4_recurs(const Fields& f, int layer) {
  if (f.has({"", "attention.recurrent_layers"})) return f.flag_of({"", "attention.recurrent_layers"}, layer, true);
  const int every = std::max(1, f.count_or({"full_attention_interval", "full_attention_interval"}, 4));
  return layer_is(f, layer, "linear_attention", (layer + 1) % every != 0);
}

}  // namespace

ModelSpec qwen4_exp(const Fields& f) {
  DeltaRule delta = delta_net(f);
  delta.gate = qwen4_gate(f);
  Attention attention = qwen_gated_attention(f);
  attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 1});
  delta.tiled_in_gguf = true;
  if (f.has({"indexer_n_heads", "attention.indexer.head_count"})) attention.indexer = window_indexer(f, attention);
  const Experts experts = qwen_shared_experts(f);
  GatedResidual streams;
  streams.streams = static_cast<int>(f.integer_or({"hc_count", "hyper_connection.count"}, 4, 2, 64));
  streams.rank =
      static_cast<int>(f.integer_or({"hc_lowrank", "hyper_connection.low_rank"}, 320, 1, ConfigLimits::inner));
  streams.norm = attention.query_norm;
  ModelSpec spec = decoder(f, [&](int layer) {
    const Block mixer = qwen4_recurs(f, layer) ? Block(delta) : Block(attention);
    Layer out;
    out.body = [streams, mixer, experts, ngrams = qwen4_ngrams(f, layer, streams)](Builder& b, Rows x) {
      if (ngrams) (*ngrams)(b, x);
      return streams.around(b, streams.around(b, x, kOfMixer, mixer), kOfExperts, experts);
    };
    return out;
  });
  spec.enter = [streams](Builder& b, Rows x) { return streams.enter(b, x); };
  spec.leave = [streams](Builder& b, Rows x) { return streams.leave(b, x, kOfModel); };
  spec.final_norm = false;
  spec.names.hf = qwen4_names();
  spec.names.gguf = {{"indexer.attn_q", "indexer.q_proj"}, {"indexer.attn_k", "indexer.k_proj"}};
  return spec;
}

}  // namespace espalier
