// Falcon-H1: attention and Mamba-2 side by side in every layer, with multipliers of nearly everything, which GGUF files
// have in their weights. Source: Falcon-H1 (arXiv 2507.22448); transformers' FalconH1Model.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

float multiplier(const Fields& f, std::string_view name) {
  return static_cast<float>(f.number_or({name}, 1));
}

std::vector<float> multipliers(const Fields& f, std::string_view name, std::size_t count) {
  std::vector<float> out;
  for (const double number : f.numbers({name}, count)) out.push_back(static_cast<float>(number));
  if (!out.empty() && out.size() != count)
    f.refuse({name}, fmt::format("{} has {} numbers, but must have {}", f.path({name}), out.size(), count));
  out.resize(count, 1.0f);
  return out;
}

Mamba2 falcon_mamba2(const Fields& f) {
  Mamba2 m = mamba2_of(f);
  m.activation = activation_of(f);
  m.out_bias = f.flag_or({"projectors_bias"}, false);
  m.normed = f.flag_or({"mamba_rms_norm"}, false);
  const bool first = f.flag_or({"mamba_norm_before_gate"}, !f.is_gguf());
  m.gate = first ? GatedNormForm::norm_then_silu : GatedNormForm::silu_then_norm;
  m.norm_in_gguf = true;
  m.in_scale = multiplier(f, "ssm_in_multiplier");
  if (f.has({"ssm_multipliers"})) m.scales = multipliers(f, "ssm_multipliers", 5);
  return m;
}

Block both_mixers(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.scale = multiplier(f, "key_multiplier") / std::sqrt(static_cast<float>(attention.head_dim));
  const float in = multiplier(f, "attention_in_multiplier"), out = multiplier(f, "attention_out_multiplier"),
              mamba_out = multiplier(f, "ssm_out_multiplier");
  return [attention, mamba = falcon_mamba2(f), in, out, mamba_out](Builder& b, Rows x) {
    const Rows made = mamba(b, x);
    if (mamba_out != 1.0f) b.scale(made, mamba_out);
    Rows attended = x;
    if (in != 1.0f) b.emit(CombineOp{.in = x, .out = attended = b.buffer(x.width), .scale = in});
    b.add(made, attention(b, attended), out);
    return made;
  };
}

Block scaled_mlp(const Fields& f) {
  Mlp mlp = gated_mlp(f);
  mlp.bias = f.flag_or({"mlp_bias"}, false);
  const std::vector<float> scales = multipliers(f, "mlp_multipliers", 2);
  mlp.gate_scale = scales[0];
  if (scales[1] == 1.0f) return mlp;
  return [mlp, scale = scales[1]](Builder& b, Rows x) {
    const Rows out = mlp(b, x);
    b.scale(out, scale);
    return out;
  };
}

}  // namespace

ModelSpec falcon_h1(const Fields& f) {
  ModelSpec spec = decoder(f, [&](int) { return pre_norm(both_mixers(f), scaled_mlp(f)); });
  spec.embedding_scale = multiplier(f, "embedding_multiplier");
  spec.logit_scale = multiplier(f, "lm_head_multiplier");
  spec.names.hf = mamba_names("mamba");
  for (const auto& [role, name] :
       std::initializer_list<std::pair<std::string_view, const char*>>{{"output_norm", "model.final_layernorm"},
                                                                       {"ffn_norm", "pre_ff_layernorm"},
                                                                       {"ssm_dt", "mamba.dt_bias"},
                                                                       {"ffn_gate", "feed_forward.gate_proj"},
                                                                       {"ffn_up", "feed_forward.up_proj"},
                                                                       {"ffn_down", "feed_forward.down_proj"}})
    spec.names.hf.push_back({role, name});
  return spec;
}

}  // namespace espalier
