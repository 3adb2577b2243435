// Jamba: Mamba, attention without rotation in some layers, experts in some.
// Source: Jamba (arXiv 2403.19887); transformers' JambaModel.
#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/blocks/channels/experts.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

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

}  // namespace

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

}  // namespace espalier
