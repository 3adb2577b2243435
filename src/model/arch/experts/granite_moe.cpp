// Granite-MoE: Granite with experts, later beside an MLP that every token passes.
// Source: Granite 3.0 language models; transformers' GraniteMoeModel.
#include "model/arch/experts/granite_moe.h"
#include "model/arch/families.h"
#include "model/arch/recurrent/mamba_fields.h"
#include "model/blocks/channels/experts.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

constexpr FieldName kExperts{"num_local_experts", "expert_count"};

constexpr FieldName kShared{"shared_intermediate_size", "expert_shared_feed_forward_length"};

// The MLP that every token passes; alone, GGUF files call it as in a model without experts.
Mlp shared_mlp(const Fields& f, bool alone) {
  Mlp mlp;
  mlp.fused = true;
  mlp.how.activation.kind = activation_of(f);
  mlp.inner = f.is_gguf() && alone ? f.count({"", "feed_forward_length"}, ConfigLimits::inner)
                                   : f.count_or(kShared, 0, ConfigLimits::inner);
  if (alone) return mlp;
  mlp.gate = "ffn_gate_shexp";
  mlp.up = "ffn_up_shexp";
  mlp.down = "ffn_down_shexp";
  mlp.gate_up = "ffn_gate_up_shexp";
  return mlp;
}

Block granite_mlp(const Fields& f) {
  if (f.count_or(kExperts, 0, ConfigLimits::experts) == 0) return shared_mlp(f, true);
  Experts experts = experts_of(f);
  experts.router.scores = RouterSpec::Scores::softmax_of_chosen;
  experts.fused = FusedExperts::rows;
  experts.fused_gate_up = "input_linear";
  experts.fused_down = "output_linear";
  const Mlp shared = shared_mlp(f, false);
  return [experts, shared](Builder& b, Rows x) {
    Experts of_file = experts;
    if (b.has_tensor(b.name("ffn_exps") + ".gate_up_proj")) {  // checkpoints of GraniteMoeSWA
      of_file.fused_gate_up = "gate_up_proj";
      of_file.fused_down = "down_proj";
    }
    const Rows out = of_file(b, x);
    if (shared.inner > 0) b.add(out, shared(b, x));
    return out;
  };
}

}  // namespace

ModelSpec granite_experts(const Fields& f, const std::function<Block(int layer)>& mixer) {
  ModelSpec spec = decoder(f, [&](int layer) { return pre_norm(mixer(layer), granite_mlp(f)); });
  granite_scales(f, spec);
  spec.names.hf = mamba_names("mamba");
  for (const Names::Entry& entry :
       std::initializer_list<Names::Entry>{{"ssm_dt", "mamba.dt_bias"},
                                           {"ffn_gate_inp", "block_sparse_moe.router.layer|block_sparse_moe.router"},
                                           {"ffn_exps", "block_sparse_moe|block_sparse_moe.experts"},
                                           {"ffn_gate_up", "shared_mlp.input_linear"},
                                           {"ffn_down", "shared_mlp.output_linear"},
                                           {"ffn_gate_up_shexp", "shared_mlp.input_linear"},
                                           {"ffn_down_shexp", "shared_mlp.output_linear"}})
    spec.names.hf.push_back(entry);
  return spec;
}

ModelSpec granite_moe(const Fields& f) {
  return granite_experts(f, [&](int) { return Block(granite_attention(f)); });
}

ModelSpec granite_moe_swa(const Fields& f) {
  return granite_experts(f, [&](int layer) {
    Attention attention = granite_attention(f);
    granite_slides(f, layer, attention);
    return Block(attention);
  });
}

}  // namespace espalier
