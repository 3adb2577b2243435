// PLaMo 2: Mamba-2 with norms of steps, keys and queries in every second layer, norms around both halves.
// Source: PLaMo model cards; llama.cpp and vLLM for names and layouts.
#include "model/arch/dense/plamo_parts.h"
#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/blocks/recurrent/ranked_mamba2.h"

namespace espalier {

ModelSpec plamo2(const Fields& f) {
  RankedMamba2 mixer;
  mixer.heads = f.count({"mamba_num_heads", "ssm.time_step_rank"}, ConfigLimits::heads);
  const FieldName width{"hidden_size_per_head"};
  mixer.head_dim = f.is_gguf() ? std::max(1, f.count({"", "ssm.inner_size"}, ConfigLimits::inner) / mixer.heads)
                               : f.count(width, ConfigLimits::head_dim);
  mixer.state = f.count({"mamba_d_state", "ssm.state_size"}, ConfigLimits::state_keys);
  mixer.taps = taps_of(f, {"mamba_d_conv", "ssm.conv_kernel"}, 4);
  mixer.rank = std::max(64, hidden_size(f) / 16);
  mixer.norm_eps = static_cast<float>(f.number_or({"rms_norm_eps", "attention.layer_norm_rms_epsilon"}, 1e-6));
  if (std::int64_t{mixer.heads} * mixer.head_dim > ConfigLimits::attention_width)
    f.refuse(width, "the heads of the state are wider together than is possible here");
  const int step = static_cast<int>(f.integer_or({"mamba_step"}, 2, 1, ConfigLimits::layers)), layers = layer_count(f);
  ModelSpec spec = plamo_model(f, [&](int layer) -> Block {
    const bool attends = f.is_gguf()          ? has_key_heads(f, layer)
                         : layers <= step / 2 ? layer == layers - 1
                                              : layer % step == step / 2;
    if (!attends && f.flag_or({"mamba_enabled"}, true)) return mixer;
    Attention a = plamo_attention(f, f.is_gguf() ? layer : -1);
    a.rope = rope_of(f, {.head_dim = a.head_dim});
    a.head_norm = Attention::HeadNorm::each_own;
    return a;
  });
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"ssm_in", "mixer.in_proj"},
                                                                       {"ssm_conv1d", "mixer.conv1d"},
                                                                       {"ssm_x", "mixer.bcdt_proj"},
                                                                       {"ssm_dt", "mixer.dt_proj"},
                                                                       {"ssm_dt_bias", "mixer.dt_bias"},
                                                                       {"ssm_a", "mixer.A_log"},
                                                                       {"ssm_d", "mixer.D"},
                                                                       {"ssm_dt_norm", "mixer.dt_norm_weight"},
                                                                       {"ssm_b_norm", "mixer.B_norm_weight"},
                                                                       {"ssm_c_norm", "mixer.C_norm_weight"},
                                                                       {"ssm_out", "mixer.out_proj"},
                                                                       {"attn_q_norm", "mixer.q_weight"},
                                                                       {"attn_k_norm", "mixer.k_weight"}})
    std::erase_if(spec.names.hf, [&](const Names::Entry& e) { return e.role == role; }),
        spec.names.hf.push_back({role, name});
  return spec;
}

}  // namespace espalier
