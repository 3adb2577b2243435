// LongCat-Flash: two attentions and two MLPs a layer; experts read what the first MLP reads and are added at the end, some
// give their input back. Source: LongCat-Flash report (arXiv 2509.01322); transformers' LongcatFlashModel.
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/latent/latent.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// Queries and the kept vector as if they were as wide as the row.
float root_of_widths(const Fields& f, FieldName flag, int rank) {
  if (!f.flag_or(flag, true)) return 1.0f;
  return static_cast<float>(std::sqrt(static_cast<double>(hidden_size(f)) / rank));
}

Rows run(Builder& b, Rows x, const LatentAttention& attention, const Mlp& mlp, const Experts& experts) {
  Rows aside;
  for (int part = 0; part < 2; ++part) {
    b.set_part(part);
    b.add(x, attention(b, b.norm(x, b.spec().norm, "attn_norm")));
    const Rows normed = b.norm(x, b.spec().norm, "ffn_norm");
    if (part == 0) aside = experts(b, normed);
    b.add(x, mlp(b, normed));
  }
  b.add(x, aside);
  return x;
}

constexpr std::pair<std::string_view, std::string_view> kAttentionNames[] = {
    {"attn_q_a", "q_a_proj"},   {"attn_q_a_norm", "q_a_layernorm"},
    {"attn_q_b", "q_b_proj"},   {"attn_kv_a_mqa", "kv_a_proj_with_mqa"},
    {"attn_kv_b", "kv_b_proj"}, {"attn_kv_a_norm", "kv_a_layernorm"},
    {"attn_output", "o_proj"}};

std::vector<Names::Entry> longcat_names() {
  std::vector<Names::Entry> names = {{"attn_norm", "input_layernorm.{}"},
                                     {"ffn_norm", "post_attention_layernorm.{}"},
                                     {"ffn_gate_inp", "mlp.router.classifier"},
                                     {"exp_probs_b", "mlp.router.e_score_correction_bias"}};
  for (const auto& [role, name] : kAttentionNames) names.push_back({role, "self_attn.{}." + std::string(name)});
  names.push_back({"ffn_gate", "mlps.{}.gate_proj"});
  names.push_back({"ffn_up", "mlps.{}.up_proj"});
  names.push_back({"ffn_down", "mlps.{}.down_proj"});
  return names;
}

// Of the layer that drafts, which has one attention and one MLP.
std::vector<Names::Entry> draft_names() {
  std::vector<Names::Entry> names = {
      {"attn_norm", "layers.0.input_layernorm"}, {"ffn_norm", "layers.0.post_attention_layernorm"},
      {"nextn.eh_proj", "layers.0.eh_proj"},     {"nextn.enorm", "layers.0.enorm.m"},
      {"nextn.hnorm", "layers.0.hnorm.m"},       {"nextn.shared_head_norm", "norm"}};
  for (const auto& [role, name] : kAttentionNames) names.push_back({role, "layers.0.self_attn." + std::string(name)});
  names.push_back({"ffn_gate", "layers.0.transformer_layer.mlp.gate_proj"});
  names.push_back({"ffn_up", "layers.0.transformer_layer.mlp.up_proj"});
  names.push_back({"ffn_down", "layers.0.transformer_layer.mlp.down_proj"});
  return names;
}

}  // namespace

ModelSpec longcat_flash(const Fields& f) {
  LatentAttention attention = latent_attention(f, 1e7);
  attention.pairs = true;
  if (attention.query_rank == 0) f.refuse({"q_lora_rank"}, "q_lora_rank is missing");
  attention.query_factor = root_of_widths(f, {"mla_scale_q_lora"}, std::max(1, attention.query_rank));
  attention.latent_factor = root_of_widths(f, {"mla_scale_kv_lora"}, attention.rank);
  Experts experts = deepseek_experts(f, {.sigmoid = false, .renormalise = false});
  experts.inner = f.count({"expert_ffn_hidden_size|moe_intermediate_size"}, ConfigLimits::inner);
  experts.shared_inner = 0;
  experts.router_bias = f.flag_or({"router_bias"}, false);
  experts.passing = f.count_or({"zero_expert_num"}, 256, ConfigLimits::experts);
  if (f.word_or({"zero_expert_type"}, "identity") != "identity")
    f.refuse({"zero_expert_type"},
             "zero_expert_type must be identity: other experts without weights are not supported here");
  Mlp mlp;
  mlp.inner = f.count({"ffn_hidden_size|intermediate_size"}, ConfigLimits::inner);
  mlp.how.activation.kind = activation_of(f);
  const int layers = f.has({"num_layers"}) ? f.count({"num_layers"}, ConfigLimits::layers) : (layer_count(f) + 1) / 2;
  ModelSpec spec = decoder(
      f,
      [&](int) {
        Layer layer;
        layer.body = [=](Builder& b, Rows x) { return run(b, x, attention, mlp, experts); };
        return layer;
      },
      layers);
  spec.names.hf = longcat_names();
  bring_draft_layer(spec, pre_norm(attention, mlp), draft_names(), "model.mtp.");
  return spec;
}

}  // namespace espalier
