// LLaVA 1.5: CLIP's or SigLIP's hidden state of some layer, without the class token, through an MLP.
// Source: arXiv 2310.03744; transformers' Llava.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {

TowerSpec llava_tower(const TowerFields& f) {
  if (f.vision.word_or({"model_type"}, "") == "pixtral") return pixtral_tower(f);
  const bool clip = f.vision.word_or({"model_type"}, "clip_vision_model") != "siglip_vision_model";
  VisionDefaults defaults;
  if (clip) {
    defaults.activation = "quick_gelu";
    defaults.eps = 1e-5;
    defaults.patch = 32;
  }
  const VisionNumbers n = vision_numbers(f.vision, defaults);
  if (clip && f.top.word_or({"vision_feature_select_strategy"}, "default") == "full")
    f.top.refuse({"vision_feature_select_strategy"},
                 "vision_feature_select_strategy is \"full\" with a class token, which is not supported here");
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  spec.planes = n.channels;
  spec.patch = n.patch;
  spec.side = n.side();
  spec.body.names = clip_names("vision_tower.vision_model.");
  const int layers = layers_until(f.top, {"vision_feature_layer"}, n.layers, -2);
  spec.body.layers.assign(static_cast<std::size_t>(layers), pre_norm(tower_attention(n), tower_mlp(n)));
  spec.enter = [=, width = spec.patch_width](Builder& b) {
    Rows x = patch_rows(b, width, {n.hidden, n.channels, n.patch, n.patch}, !clip);
    add_positions(b, x, "v.position_embd", n.side() * n.side() + (clip ? 1 : 0));
    if (clip) add_positions(b, x, "v.class_embd", 1, 1);
    return clip ? b.norm(x, b.spec().norm, "v.pre_norm") : x;
  };
  const bool bias = f.top.flag_or({"multimodal_projector_bias"}, true);
  const ActivationKind how = activation_in(f.top, {"projector_hidden_act"}, "gelu");
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    b.emit(GiveOp{project(b, clip ? gather(b, x, 0, 1) : x, "mm.0", width, how, "mm.2", width, bias)});
  };
  spec.layout = [clip](std::span<const TowerPicture> pictures) { return tile_layout(pictures, 1, clip); };
  return spec;
}

}  // namespace espalier
