// InternVL: a vision transformer with a class token and scaled halves, squares of patches side by side, an MLP.
// Source: arXiv 2504.10479; transformers' InternVL.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

Names internvl_names() {
  Names names = clip_names("vision_tower.");
  names.layer_prefix = "vision_tower.encoder.layer.{}.";
  for (Names::Entry& entry : names.hf) {
    if (entry.role == "attn_norm") entry.name = "layernorm_before";
    if (entry.role == "ffn_norm") entry.name = "layernorm_after";
    if (entry.role == "attn_output") entry.name = "attention.projection_layer";
    if (entry.role == "v.patch_embd") entry.name = "vision_tower.embeddings.patch_embeddings.projection";
    if (entry.role == "v.position_embd") entry.name = "vision_tower.embeddings.position_embeddings";
    if (entry.role == "v.class_embd") entry.name = "vision_tower.embeddings.cls_token";
    if (entry.role == "v.post_norm") entry.name = "vision_tower.layernorm";
  }
  for (const auto& [role, name] :
       {std::pair("attn_q", "attention.q_proj"), std::pair("attn_k", "attention.k_proj"),
        std::pair("attn_v", "attention.v_proj"), std::pair("attn_q_norm", "attention.q_norm"),
        std::pair("attn_k_norm", "attention.k_norm"), std::pair("v.scale_1", "lambda_1"),
        std::pair("v.scale_2", "lambda_2")})
    names.hf.push_back({role, name});
  return names;
}

// What a block gives, times a learned vector.
Block scaled(Block block, std::string_view role) {
  return [block = std::move(block), role](Builder& b, Rows x) {
    const Rows out = block(b, x);
    b.emit(CombineOp{.in = out, .out = out, .by = b.vector(role, {out.width})});
    return out;
  };
}

}  // namespace

TowerSpec internvl_tower(const TowerFields& f) {
  const VisionNumbers n = vision_numbers(
      f.vision,
      {.hidden = 1024, .inner = 4096, .layers = 24, .heads = 16, .patch = 14, .image = 448, .activation = "gelu"});
  const bool rms = f.vision.word_or({"norm_type"}, "layer_norm") == "rms_norm";
  TowerSpec spec = tower_of(f, n, rms ? NormOp::Kind::rms : NormOp::Kind::layer);
  spec.planes = n.channels;
  spec.patch = n.patch;
  spec.side = n.side();
  const double ratio = f.top.number_or({"downsample_ratio"}, 0.5, {.low = 0.01, .high = 1});
  const int factor = std::max(1, static_cast<int>(1 / ratio));
  spec.merge = factor;
  spec.body.names = internvl_names();
  Attention attention = tower_attention(n);
  attention.qkv_bias = f.vision.flag_or({"attention_bias"}, false);
  if (f.vision.flag_or({"use_qk_norm"}, false)) {
    attention.head_norm = Attention::HeadNorm::whole;
    attention.query_norm.eps = n.eps;
  }
  spec.body.layers.assign(static_cast<std::size_t>(layers_until(f.top, {"vision_feature_layer"}, n.layers, -1)),
                          pre_norm(scaled(attention, "v.scale_1"), scaled(tower_mlp(n), "v.scale_2")));
  spec.enter = [=, width = spec.patch_width](Builder& b) {
    const Rows x = patch_rows(b, width, {n.hidden, n.channels, n.patch, n.patch}, true);
    if (f.vision.flag_or({"use_absolute_position_embeddings"}, true))
      add_positions(b, x, "v.position_embd", n.side() * n.side() + 1);
    // The class token's row has no patch, but its bias.
    const VectorId own = b.vector("v.class_embd", {n.hidden}), bias = b.vector("v.patch_embd", {n.hidden}, ".bias");
    for (std::size_t i = 0; i < b.values(own).size(); ++i) b.values(own)[i] -= b.values(bias)[i];
    b.emit(BlendRowsOp{own, 1, x});
    return x;
  };
  const bool normed = !f.vision.flag_or({"use_mean_pooling"}, true);
  const ActivationKind how = activation_in(f.top, {"projector_hidden_act"}, "gelu");
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    if (normed) x = b.norm(x, b.spec().norm, "v.post_norm");
    x = gather(b, x, 0, factor * factor);
    x = b.norm(x, {.kind = NormOp::Kind::layer, .eps = 1e-5f, .bias = true}, "mm.norm");
    b.emit(GiveOp{project(b, x, "mm.0", width, how, "mm.2", width)});
  };
  spec.layout = [factor](std::span<const TowerPicture> pictures) { return tile_layout(pictures, factor, true); };
  return spec;
}

}  // namespace espalier
