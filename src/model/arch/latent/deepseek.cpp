// DeepSeek V2 and V3 (with Kimi K2, Moonlight, R1), GLM-4.7-Flash and their like: latent attention, a few dense layers,
// then routed experts beside shared ones. DeepSeek's first mixture has plain attention.
// Source: DeepSeekMoE (arXiv 2401.06066), DeepSeek-V2 (2405.04434), DeepSeek-V3 (2412.19437); transformers' models.
#include "model/arch/experts/routed.h"
#include "model/arch/families.h"
#include "model/arch/latent/latent.h"
#include "model/blocks/channels/experts.h"

namespace espalier {
namespace {

ModelSpec latent_decoder(const Fields& f, const RouterHabits& habits, int dense_first, const Block& attention,
                         bool bias = false) {
  Mlp mlp = gated_mlp(f);
  mlp.bias = bias;
  if (!f.has({"n_routed_experts|num_local_experts|num_experts", "expert_count"}))
    return decoder(f, [&](int) { return pre_norm(attention, mlp); });
  Experts experts = deepseek_experts(f, habits);
  experts.shared_bias = bias;
  ModelSpec spec = decoder(f, [&](int layer) {
    return pre_norm(attention, is_dense_layer(f, layer, dense_first) ? Block(mlp) : Block(experts));
  });
  bring_draft_layer(spec, pre_norm(attention, experts));
  return spec;
}

}  // namespace

// Small models of the class keep plain attention (use_mla false).
ModelSpec deepseek_v2(const Fields& f) {
  const RouterHabits habits{
      .sigmoid = false, .corrected = false, .renormalise = false, .never_renormalise_softmax = true};
  return latent_decoder(f, habits, 0,
                        f.flag_or({"use_mla"}, true) ? Block(latent_attention(f)) : Block(grouped_attention(f)),
                        f.flag_or({"mlp_bias"}, false));
}

ModelSpec deepseek_v3(const Fields& f) {
  return latent_decoder(f, {}, 3, latent_attention(f));
}

ModelSpec glm4_moe_lite(const Fields& f) {
  return latent_decoder(f, {}, 1, latent_attention(f));
}

ModelSpec deepseek(const Fields& f) {
  Attention attention = grouped_attention(f);
  attention.qkv_bias = attention.out_bias = f.flag_or({"attention_bias"}, false);
  attention.pairs_in_gguf = true;
  const Experts experts = deepseek_experts(f, {.sigmoid = false, .corrected = false, .renormalise = false});
  return decoder(f, [&](int layer) {
    return pre_norm(attention, is_dense_layer(f, layer, 0) ? Block(gated_mlp(f)) : Block(experts));
  });
}

}  // namespace espalier
