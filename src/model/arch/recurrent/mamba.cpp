// Mamba and Falcon-Mamba (which norms steps, keys and queries), Mamba-2: nothing but state space mixers. Jamba: Mamba,
// attention without rotation in some layers, experts in some. Bamba: Mamba-2 and attention.
// Source: Mamba (arXiv 2312.00752), Mamba-2 (arXiv 2405.21060), Jamba (arXiv 2403.19887); transformers.
#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

ModelSpec mixers_alone(const Fields& f, const Block& mixer) {
  ModelSpec spec = decoder(f, [&](int) { return Layer{{{mixer, "attn_norm"}}}; });
  spec.longest = 1 << 20;  // as llama.cpp has it: no layer counts positions
  spec.names.layer_prefix = "backbone.layers.{}.";
  spec.names.hf = mamba_names("mixer");
  for (const auto& [role, name] : std::initializer_list<std::pair<std::string_view, const char*>>{
           {"token_embd", "backbone.embeddings"}, {"output_norm", "backbone.norm_f"}, {"attn_norm", "norm"}})
    spec.names.hf.push_back({role, name});
  return spec;
}

// An MLP, or experts where a GGUF file has them or the checkpoint's period says so.
Block jamba_mlp(const Fields& f, int layer) {
  const Mlp mlp = gated_mlp(f);
  if (f.count_or({"num_experts|num_local_experts", "expert_count"}, 0, ConfigLimits::experts) < 2) return mlp;
  const Experts experts = experts_of(f);
  if (f.is_gguf())
    return [mlp, experts](Builder& b, Rows x) { return b.has("ffn_gate_inp") ? experts(b, x) : mlp(b, x); };
  const std::int64_t period = f.integer_or({"expert_layer_period"}, 2, 1);
  return layer % period == f.integer_or({"expert_layer_offset"}, 1) ? Block(experts) : Block(mlp);
}

bool jamba_attends(const Fields& f, int layer) {
  if (f.is_gguf()) return has_key_heads(f, layer);
  return layer % f.integer_or({"attn_layer_period"}, 8, 1) == f.integer_or({"attn_layer_offset"}, 4);
}

std::vector<Names::Entry> feed_forward_names() {
  std::vector<Names::Entry> names = mamba_names("mamba");
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"output_norm", "model.final_layernorm"},
                                                                       {"ffn_norm", "pre_ff_layernorm"},
                                                                       {"ffn_gate", "feed_forward.gate_proj"},
                                                                       {"ffn_up", "feed_forward.up_proj"},
                                                                       {"ffn_down", "feed_forward.down_proj"},
                                                                       {"ffn_gate_inp", "feed_forward.router"},
                                                                       {"ffn_exps", "feed_forward.experts"}})
    names.push_back({role, name});
  return names;
}

}  // namespace

ModelSpec mamba(const Fields& f) {
  Mamba1 mixer = mamba1_of(f);
  if (f.flag_or({"", "ssm.dt_b_c_rms"}, false)) mixer.norms = Mamba1::Norms::plain;
  mixer.norm_eps = static_cast<float>(f.number_or({"", "attention.layer_norm_rms_epsilon"}, 1e-6));
  ModelSpec spec = mixers_alone(f, mixer);
  spec.names.hf.push_back({"ssm_dt", "mixer.dt_proj"});
  return spec;
}

ModelSpec falcon_mamba(const Fields& f) {
  Mamba1 mixer = mamba1_of(f);
  mixer.norms = Mamba1::Norms::plain;
  mixer.norm_eps = static_cast<float>(f.number_or({"mixer_rms_eps"}, 1e-6));
  ModelSpec spec = mixers_alone(f, mixer);
  spec.names.hf.push_back({"ssm_dt", "mixer.dt_proj"});
  return spec;
}

ModelSpec mamba2(const Fields& f) {
  Mamba2 mixer = mamba2_of(f);
  mixer.activation = activation_of(f);
  ModelSpec spec = mixers_alone(f, mixer);
  spec.names.hf.push_back({"ssm_dt", "mixer.dt_bias"});
  return spec;
}

ModelSpec jamba(const Fields& f) {
  Mamba1 mixer = mamba1_of(f);
  mixer.norms = Mamba1::Norms::with_gain;
  mixer.norm_eps = static_cast<float>(f.number_or({"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-6));
  ModelSpec spec = decoder(f, [&](int layer) {
    if (!jamba_attends(f, layer)) return pre_norm(mixer, jamba_mlp(f, layer));
    Attention attention = grouped_attention(f, layer);
    attention.rope.reset();
    return pre_norm(attention, jamba_mlp(f, layer));
  });
  spec.names.hf = feed_forward_names();
  spec.names.hf.push_back({"ssm_dt", "mamba.dt_proj"});
  return spec;
}

ModelSpec bamba(const Fields& f) {
  Mamba2 mixer = mamba2_of(f);
  mixer.activation = activation_of(f);
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  ModelSpec spec = decoder(f, [&](int layer) {
    if (!f.lists({"attn_layer_indices"}, layer)) return pre_norm(mixer, mlp);
    Attention attention = attention_heads(f);
    attention.rope = rope_of(f, {.head_dim = attention.head_dim, .part = 0.5});
    attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
    return pre_norm(attention, mlp);
  });
  spec.names.hf = feed_forward_names();
  spec.names.hf.push_back({"ssm_dt", "mamba.dt_bias"});
  return spec;
}

}  // namespace espalier
