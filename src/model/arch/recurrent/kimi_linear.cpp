// Kimi Linear: three of four layers are Kimi delta attention, the others latent attention without rotation; experts of
// DeepSeek's kind. Source: Kimi Linear (arXiv 2510.26692); transformers' KimiLinearModel.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/latent/latent.h"
#include "model/arch/recurrent/kimi_delta.h"
#include "model/blocks/channels/experts.h"
#include "model/blocks/recurrent/delta_rule.h"

namespace espalier {
namespace {

Experts kimi_experts(const Fields& f) {
  Experts e = deepseek_experts(f, {});
  if (f.word_or({"moe_router_activation_func"}, "sigmoid") == "softmax") e.router.scores = RouterSpec::Scores::softmax;
  e.gate = "w1";
  e.down = "w2";
  e.up = "w3";
  return e;
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

}  // namespace espalier
