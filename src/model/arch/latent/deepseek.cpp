// DeepSeek V2 and V3 (with Kimi K2, Moonlight, R1), GLM-4.7-Flash and their like: latent attention, a few dense layers,
// then routed experts beside shared ones. DeepSeek's first mixture has plain attention.
// Source: DeepSeekMoE (arXiv 2401.06066), DeepSeek-V2 (2405.04434), DeepSeek-V3 (2412.19437); transformers' models.
#include <cmath>

#include "model/arch/families.h"
#include "model/arch/latent/latent.h"

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

// A norm behind the experts. Source: transformers' AXK1Model.
ModelSpec axk1(const Fields& f) {
  const Experts experts = deepseek_experts(f, {});
  const LatentAttention attention = latent_attention(f);
  ModelSpec spec = decoder(f, [&](int layer) {
    if (is_dense_layer(f, layer, 1)) return pre_norm(attention, gated_mlp(f));
    Layer sparse = pre_norm(attention, experts);
    sparse.halves.back().after = "post_ffw_norm";
    return sparse;
  });
  spec.names.hf = {{"post_ffw_norm", "post_mlp_layernorm|mlp.post_mlp_layernorm"}};
  return spec;
}

// Latent attention before plain MLPs.
ModelSpec youtu(const Fields& f) {
  return decoder(f, [&](int) { return pre_norm(latent_attention(f), gated_mlp(f)); });
}

// Both halves and the embedding are scaled. Source: MiniCPM (arXiv 2404.06395).
ModelSpec minicpm3(const Fields& f) {
  LatentAttention attention = latent_attention(f);
  attention.pairs = false;
  // Where a factor is null there is none; where it is absent it is that of the published model.
  const auto factor = [&](const char* name, double published, double none) {
    return f.number_or({name}, f.object().contains(name) ? none : published, {.low = 0, .above_low = true});
  };
  const double layers = layer_count(f), depth = factor("scale_depth", 1.4, std::sqrt(layers));
  ModelSpec spec = decoder(f, [&](int) {
    Layer layer = pre_norm(attention, gated_mlp(f));
    for (Half& half : layer.halves) half.scale = static_cast<float>(depth / std::sqrt(layers));
    return layer;
  });
  spec.embedding_scale = static_cast<float>(factor("scale_emb", 12, 1));
  spec.logit_scale = static_cast<float>(factor("dim_model_base", 256, spec.hidden) / spec.hidden);
  return spec;
}

ModelSpec mistral4(const Fields& f) {
  LatentAttention attention = latent_attention(f);
  const Fields rope = f.is_gguf() ? f : f.at({"rope_parameters"});
  attention.query_scale.beta =
      static_cast<float>(rope.number_or({"llama_4_scaling_beta", "attention.temperature_scale"}, 0));
  attention.query_scale.period = rope.integer_or(
      {"original_max_position_embeddings", "attention.temperature_length|rope.scaling.original_context_length"}, 8192,
      1);
  Experts experts = deepseek_experts(f, {.sigmoid = false, .corrected = false, .renormalise = true});
  experts.router.group_by_two = true;
  experts.fused = FusedExperts::rows;
  return decoder(f, [&](int layer) {
    return pre_norm(attention, is_dense_layer(f, layer, 0) ? Block(gated_mlp(f)) : Block(experts));
  });
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
