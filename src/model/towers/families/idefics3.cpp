// Idefics 3 and SmolVLM: SigLIP, squares of patches side by side (pixel shuffle), one matrix.
// Source: arXiv 2408.12637, 2504.05299; transformers' Idefics3 and SmolVLM.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {

TowerSpec idefics3_tower(const TowerFields& f) {
  VisionNumbers n = vision_numbers(f.vision, {.hidden = 1152, .heads = 16, .patch = 32});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  spec.planes = n.channels;
  spec.patch = n.patch;
  spec.side = n.side();
  const int factor = static_cast<int>(f.top.integer_or({"scale_factor"}, 2, 1, 64));
  spec.merge = factor;
  spec.body.names = clip_names("model.vision_model.");
  spec.body.names.hf.push_back({"mm.proj", "model.connector.modality_projection.proj"});
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), pre_norm(tower_attention(n), tower_mlp(n)));
  spec.enter = [=, width = spec.patch_width](Builder& b) { return placed_patch_rows(b, width, n); };
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = gather(b, b.norm(x, b.spec().norm, "v.post_norm"), 0, factor * factor);
    b.emit(GiveOp{b.matmul(x, {b.matrix("mm.proj", width, x.width)})});
  };
  spec.layout = [factor](std::span<const TowerPicture> pictures) { return tile_layout(pictures, factor); };
  return spec;
}

}  // namespace espalier
