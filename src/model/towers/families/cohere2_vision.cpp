// Cohere 2 Vision (Aya Vision's successor): SigLIP, squares of patches side by side, a gated projector.
// Source: transformers' Cohere2Vision.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {

TowerSpec cohere2_vision_tower(const TowerFields& f) {
  const VisionNumbers n = vision_numbers(f.vision, {});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  spec.planes = n.channels;
  spec.patch = n.patch;
  spec.side = n.side();
  const int factor = static_cast<int>(f.top.integer_or({"downsample_factor"}, 2, 1, 64));
  spec.merge = factor;
  spec.body.names = clip_names("vision_tower.vision_model.");
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), pre_norm(tower_attention(n), tower_mlp(n)));
  spec.enter = [=, width = spec.patch_width](Builder& b) { return placed_patch_rows(b, width, n); };
  const int inner = std::max(1, f.top.count_or({"alignment_intermediate_size"}, 36864, ConfigLimits::inner) / 2);
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = gather(b, b.norm(x, b.spec().norm, "v.post_norm"), 0, factor * factor);
    const MatrixPart both = b.matrix("mm.0", 2 * inner, x.width, true);  // values, then gates
    x = b.gated(x, some_rows(both, {.first = inner}, inner), some_rows(both, {.first = 0}, inner),
                {.activation = {ActivationKind::silu}});
    b.emit(GiveOp{b.matmul(x, {b.matrix("mm.2", width, inner, true)})});
  };
  spec.layout = [factor](std::span<const TowerPicture> pictures) { return tile_layout(pictures, factor); };
  return spec;
}

}  // namespace espalier
