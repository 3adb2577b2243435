// Mamba and Falcon-Mamba (which norms steps, keys and queries), Mamba-2: nothing but state space mixers.
// Source: Mamba (arXiv 2312.00752), Mamba-2 (arXiv 2405.21060); transformers' models.
#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"

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

}  // namespace espalier
