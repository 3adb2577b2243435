// Kimi Linear: three of four layers are Kimi delta attention, the others latent attention without rotation; experts of
// DeepSeek's kind. Ling 2.5 and 3 ("BailingHybrid"): the same with bounded decays, full-rank gates, rotation, and a gate
// for each head of latent attention. Source: Kimi Linear (arXiv 2510.26692); transformers' KimiLinearModel and
// BailingHybridModel.
#include "model/arch/families.h"
#include "model/arch/latent/latent.h"
#include "model/arch/recurrent/mamba_fields.h"

namespace espalier {
namespace {

constexpr FieldName kKimiNested{"linear_attn_config"};

// What the nested object says, else the fields at the top.
int kimi_count(const Fields& f, FieldName nested, FieldName top, int otherwise, std::int64_t most) {
  const Fields own = f.at(kKimiNested);
  const int count = own.has(nested) ? own.count(nested, most) : f.count_or(top, otherwise, most);
  return std::max(1, count);
}

DeltaRule kimi_delta(const Fields& f) {
  const Fields own = f.at(kKimiNested);
  DeltaRule d{.stored = DeltaRule::Stored::apart, .by_channel = true, .gate = GatedNormForm::norm_then_sigmoid};
  d.key_heads = kimi_count(f, {"num_heads"}, {"linear_num_heads|num_attention_heads", "attention.head_count"}, 32,
                           ConfigLimits::heads);
  d.key_dim = kimi_count(f, {"head_dim"}, {"linear_head_dim|head_dim", "kda.head_dim"}, 128, ConfigLimits::state_keys);
  d.taps = own.has({"short_conv_kernel_size"})
               ? taps_of(own, {"short_conv_kernel_size"}, 4)
               : taps_of(f, {"linear_conv_kernel_dim|short_conv_kernel_size", "ssm.conv_kernel"}, 4);
  d.value_heads = d.key_heads;
  d.value_dim = d.key_dim;
  d.activation = activation_of(f);
  d.norm_eps = static_cast<float>(f.number_or({"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-5));
  d.output = "attn_output";
  return d;
}

bool kimi_attends(const Fields& f, int layer, bool otherwise) {
  if (f.is_gguf()) return has_key_heads(f, layer);
  const Fields own = f.at(kKimiNested);
  if (!f.has({"layer_types"}) && own.has({"full_attn_layers"})) return own.lists({"full_attn_layers"}, layer + 1);
  return layer_is(f, layer, "full_attention", otherwise);
}

Experts kimi_experts(const Fields& f) {
  Experts e = deepseek_experts(f, {});
  if (f.word_or({"moe_router_activation_func"}, "sigmoid") == "softmax") e.router.scores = RouterSpec::Scores::softmax;
  e.gate = "w1";
  e.down = "w2";
  e.up = "w3";
  return e;
}

std::vector<Names::Entry> delta_names(const std::string& stem) {
  std::vector<Names::Entry> names;
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"ssm_conv1d_q", "q_conv1d"},
                                                                       {"ssm_conv1d_k", "k_conv1d"},
                                                                       {"ssm_conv1d_v", "v_conv1d"},
                                                                       {"ssm_a", "A_log"},
                                                                       {"ssm_dt", "dt_bias"},
                                                                       {"ssm_norm", "o_norm"},
                                                                       {"ssm_beta", "b_proj"},
                                                                       {"ssm_f_a", "f_a_proj"},
                                                                       {"ssm_f_b", "f_b_proj"},
                                                                       {"ssm_g_a", "g_a_proj"},
                                                                       {"ssm_g_b", "g_b_proj"}})
    names.push_back({role, stem + "." + name});
  return names;
}

// Some checkpoints keep all under block_sparse_moe, the MLP of a dense layer too.
std::vector<Names::Entry> kimi_names() {
  std::vector<Names::Entry> names = delta_names("self_attn");
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"ffn_gate", "gate_proj"},
                                                                       {"ffn_up", "up_proj"},
                                                                       {"ffn_down", "down_proj"},
                                                                       {"ffn_gate_inp", "gate"},
                                                                       {"exp_probs_b", "gate.e_score_correction_bias"},
                                                                       {"ffn_exps", "experts"},
                                                                       {"ffn_gate_shexp", "shared_experts.gate_proj"},
                                                                       {"ffn_up_shexp", "shared_experts.up_proj"},
                                                                       {"ffn_down_shexp", "shared_experts.down_proj"}})
    names.push_back({role, std::string("block_sparse_moe.") + name + "|mlp." + name});
  return names;
}

}  // namespace

ModelSpec kimi_linear(const Fields& f) {
  DeltaRule delta = kimi_delta(f);
  delta.decay_rank = delta.gate_rank = delta.key_dim;
  LatentAttention latent = latent_attention(f);
  latent.rope.reset();
  const Experts experts = kimi_experts(f);
  ModelSpec spec = decoder(f, [&](int layer) {
    const Block mlp = is_dense_layer(f, layer, 1) ? Block(gated_mlp(f)) : Block(experts);
    return kimi_attends(f, layer, layer > 0 && layer % 4 == 0) ? pre_norm(latent, mlp) : pre_norm(delta, mlp);
  });
  spec.names.hf = kimi_names();
  return spec;
}

ModelSpec bailing_hybrid(const Fields& f) {
  DeltaRule delta = kimi_delta(f);
  if (f.flag_or({"kda_safe_gate"}, true)) {
    delta.decay = DecayForm::bounded;
    delta.decay_bound = static_cast<float>(f.number_or({"kda_lower_bound"}, -5, {.low = -1e3, .high = 0}));
  }
  LatentAttention latent = latent_attention(f, 6e6);
  latent.pairs = true;
  latent.gate = LatentAttention::Gate::by_head;
  const Experts experts = deepseek_experts(f, {});
  const int every = static_cast<int>(f.integer_or({"layer_group_size"}, 6, 1));
  ModelSpec spec = decoder(f, [&](int layer) {
    const Block mlp = is_dense_layer(f, layer, 2) ? Block(gated_mlp(f)) : Block(experts);
    return kimi_attends(f, layer, (layer + 1) % every == 0) ? pre_norm(latent, mlp) : pre_norm(delta, mlp);
  });
  spec.names.hf = delta_names("attention");
  for (const auto& [role, name] : std::initializer_list<std::pair<std::string_view, const char*>>{
           {"token_embd", "model.word_embeddings|model.embed_tokens"},
           {"attn_q", "attention.q_proj"},
           {"attn_k", "attention.k_proj"},
           {"attn_v", "attention.v_proj"},
           {"attn_output", "attention.dense|attention.o_proj"},
           {"attn_gate", "attention.g_proj"},
           {"attn_q_a", "attention.q_a_proj"},
           {"attn_q_a_norm", "attention.q_a_layernorm"},
           {"attn_q_b", "attention.q_b_proj"},
           {"attn_kv_a_mqa", "attention.kv_a_proj_with_mqa"},
           {"attn_kv_a_norm", "attention.kv_a_layernorm"},
           {"attn_kv_b", "attention.kv_b_proj"},
           {"exp_probs_b", "mlp.gate.expert_bias|mlp.gate.e_score_correction_bias"}})
    spec.names.hf.push_back({role, name});
  for (Names::Entry& entry : spec.names.hf) {
    if (entry.role == "ssm_f_a") entry.name = "attention.f_proj";
    if (entry.role == "ssm_g_a") entry.name = "attention.g_proj";
  }
  return spec;
}

}  // namespace espalier
