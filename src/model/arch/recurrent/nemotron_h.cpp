// Nemotron-H: one mixer a layer: Mamba-2, attention without rotation, an MLP, or experts (all of them plain, with the
// square of a ReLU); experts of later models compute in a narrower space. Source: Nemotron-H (arXiv 2504.03624),
// Nemotron 3; transformers' NemotronHModel.
#include <fmt/format.h>

#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

constexpr FieldName kPattern{"hybrid_override_pattern"}, kTypes{"layers_block_type|layer_types"};

// 'M', '*', '-' or 'E' of each layer.
std::string kinds_of(const Fields& f) {
  std::string kinds;
  if (f.is_gguf()) {
    for (int i = 0; i < layer_count(f); ++i)
      kinds += has_key_heads(f, i)                                                      ? '*'
               : f.count_of({"", "feed_forward_length"}, i, 0, ConfigLimits::inner) > 0 ? 'E'
                                                                                        : 'M';
    return kinds;
  }
  if (!f.has(kTypes)) {
    kinds = f.word_or(kPattern, "");
    std::erase(kinds, '|');
  } else if (const Json* types = f.find(kTypes); types->is_array()) {
    for (const Json& type : *types)
      kinds += type == "mamba" || type == "linear_attention"     ? 'M'
               : type == "attention" || type == "full_attention" ? '*'
               : type == "mlp"                                   ? '-'
               : type == "moe"                                   ? 'E'
                                                                 : '?';
  }
  if (kinds.empty() || kinds.size() > static_cast<std::size_t>(ConfigLimits::layers) ||
      kinds.find_first_not_of("M*-E") != std::string::npos) {
    f.refuse(f.has(kTypes) ? kTypes : kPattern,
             fmt::format("{} must name Mamba-2 (M), attention (*), an MLP (-) or experts (E) for each of 1..{} layers",
                         f.path(f.has(kTypes) ? kTypes : kPattern), ConfigLimits::layers));
    return "-";
  }
  return kinds;
}

Mlp plain_mlp(const Fields& f) {
  Mlp mlp;
  mlp.inner = f.is_gguf() ? 1 : f.count({"intermediate_size"}, ConfigLimits::inner);
  mlp.gated = false;
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  mlp.how.activation.kind = activation_of(f, "relu2");
  return mlp;
}

Block experts_block(const Fields& f) {
  Experts e = deepseek_experts(f, {});
  e.gated = false;
  e.how.activation.kind = activation_of(f, "relu2");
  e.shared_inner =
      f.count({"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, ConfigLimits::inner);
  const int latent = f.count_or({"moe_latent_size", "moe_latent_size"}, 0, ConfigLimits::hidden);
  if (latent == 0) return e;
  const bool bias = f.flag_or({"mlp_bias"}, false);
  return [e, latent, bias](Builder& b, Rows x) {
    const Rows routed = e.route(b, x);
    const Rows narrow = b.matmul(x, {b.matrix("ffn_latent_down", latent, x.width, bias)});
    const Rows chosen = e.apply(b, narrow, routed);
    const Rows out = b.matmul(chosen, {b.matrix("ffn_latent_up", x.width, latent, bias)});
    e.add_shared(b, x, out);
    return out;
  };
}

// GGUF files tell an MLP from experts by their tensors alone.
Block feed_forward(const Fields& f, char kind, int layer) {
  Mlp mlp = plain_mlp(f);
  if (!f.is_gguf()) return kind == 'E' ? experts_block(f) : Block(mlp);
  mlp.inner = f.count_of({"", "feed_forward_length"}, layer, 1, ConfigLimits::inner);
  if (f.count_or({"", "expert_count"}, 0, ConfigLimits::experts) == 0) return mlp;
  return [mlp, experts = experts_block(f)](Builder& b, Rows x) {
    return b.has("ffn_gate_inp") ? experts(b, x) : mlp(b, x);
  };
}

Block mixer(const Fields& f, char kind, int layer) {
  if (kind == '-' || kind == 'E') return feed_forward(f, kind, layer);
  if (kind == '*') {
    Attention attention = grouped_attention(f, layer);
    attention.rope.reset();
    return attention;
  }
  Mamba2 mamba = mamba2_of(f);
  mamba.in_bias = mamba.out_bias = f.flag_or({"use_bias"}, false);
  mamba.activation = activation_in(f, {"mamba_hidden_act"}, "silu");
  mamba.least_step = f.is_gguf() ? 0.0f : static_cast<float>(f.number_or({"time_step_min|mamba_dt_min"}, 0.001));
  mamba.most_step = std::numeric_limits<float>::infinity();
  return mamba;
}

// What layers draft: one with attention and one with experts are known.
bool drafts_by_attention_and_experts(const Fields& f) {
  if (f.is_gguf()) return f.has({"", "nextn_predict_layers"}) && f.has({"", "expert_count"});
  if (f.count_or({"num_nextn_predict_layers"}, 0) == 0) return false;
  const FieldName types{"mtp_layers_block_type"};
  if (!f.has(types)) return f.word_or({"mtp_hybrid_override_pattern"}, "*E") == "*E";
  const std::string second = f.word_of(types, 1, "moe"), first = f.word_of(types, 0, "full_attention");
  return f.find(types)->size() == 2 && (first == "full_attention" || first == "attention") && second == "moe";
}

// GGUF files have both in one block.
void bring_draft(const Fields& f, ModelSpec& spec) {
  Attention attention = grouped_attention(f, f.is_gguf() ? static_cast<int>(spec.layers.size()) : -1);
  attention.rope.reset();
  const Layer layer = {{{attention, "attn_norm"}, {experts_block(f), "post_attention_norm"}}};
  std::vector<Names::Entry> names = {{"attn_norm", "0.norm"},        {"post_attention_norm", "1.norm"},
                                     {"nextn.eh_proj", "0.eh_proj"}, {"nextn.enorm", "0.enorm"},
                                     {"nextn.hnorm", "0.hnorm"},     {"nextn.shared_head_norm", "1.final_layernorm"}};
  for (const Names::Entry& entry : spec.names.hf)
    if (entry.name.starts_with("mixer."))
      names.push_back({entry.role, (entry.role.starts_with("attn_") ? "0." : "1.") + entry.name});
  bring_draft_layer(spec, layer, std::move(names), "mtp.layers.");
}

}  // namespace

ModelSpec nemotron_h(const Fields& f) {
  const std::string kinds = kinds_of(f);
  ModelSpec spec = decoder(
      f, [&](int i) { return Layer{{{mixer(f, kinds[static_cast<std::size_t>(i)], i), "attn_norm"}}}; },
      static_cast<int>(kinds.size()));
  spec.names.layer_prefix = "backbone.layers.{}.";
  spec.names.hf = mamba_names("mixer");
  for (const auto& [role, name] : std::initializer_list<std::pair<std::string_view, const char*>>{
           {"token_embd", "backbone.embeddings"},
           {"output_norm", "backbone.norm_f"},
           {"attn_norm", "norm"},
           {"attn_q", "mixer.q_proj"},
           {"attn_k", "mixer.k_proj"},
           {"attn_v", "mixer.v_proj"},
           {"attn_output", "mixer.o_proj"},
           {"ssm_dt", "mixer.dt_bias"},
           {"ffn_up", "mixer.up_proj"},
           {"ffn_down", "mixer.down_proj"},
           {"ffn_gate_inp", "mixer.gate"},
           {"ffn_exps", "mixer.experts"},
           {"exp_probs_b", "mixer.gate.e_score_correction_bias"},
           {"ffn_up_shexp", "mixer.shared_experts.up_proj"},
           {"ffn_down_shexp", "mixer.shared_experts.down_proj"},
           {"ffn_latent_down", "mixer.fc1_latent_proj"},
           {"ffn_latent_up", "mixer.fc2_latent_proj"}})
    spec.names.hf.push_back({role, name});
  if (drafts_by_attention_and_experts(f)) bring_draft(f, spec);
  return spec;
}

}  // namespace espalier
