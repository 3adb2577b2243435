// Ling 2.5 and 3 ("BailingHybrid"): Kimi Linear with bounded decays, full-rank gates, rotation, and a gate for each head
// of latent attention. Source: transformers' BailingHybridModel.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/latent/latent.h"
#include "model/arch/recurrent/kimi_delta.h"
#include "model/blocks/channels/experts.h"
#include "model/blocks/recurrent/delta_rule.h"

namespace espalier {

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
  bring_draft_layer(spec, pre_norm(latent, experts), {{"nextn.shared_head_norm", "final_layernorm"}});
  return spec;
}

}  // namespace espalier
