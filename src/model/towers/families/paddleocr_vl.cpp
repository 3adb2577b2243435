// PaddleOCR-VL: SigLIP for pictures of any size, with learned positions and rotation; squares of patches side by side
// through an MLP. Source: arXiv 2510.14528; transformers' PaddleOCRVL.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {

TowerSpec paddleocr_vl_tower(const TowerFields& f) {
  const VisionNumbers n =
      vision_numbers(f.vision, {.hidden = 1152, .inner = 4304, .layers = 27, .heads = 16, .patch = 14, .image = 384});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  const int merge = spec.merge = merge_side(f.vision);
  spec.body.names = clip_names("visual.vision_model.");
  for (Names::Entry& entry : spec.body.names.hf) {
    if (entry.role == "mm.norm") entry.name = "mlp_AR.pre_norm";
    if (entry.role == "mm.0") entry.name = "mlp_AR.linear_1";
    if (entry.role == "mm.2") entry.name = "mlp_AR.linear_2";
  }
  Attention attention = tower_attention(n);
  attention.rope = plane_rope(n.head_dim(), rope_theta(f.vision));
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), pre_norm(attention, tower_mlp(n)));
  spec.enter = [=, width = spec.patch_width](Builder& b) { return placed_patch_rows(b, width, n); };
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = b.norm(x, b.spec().norm, "v.post_norm");
    x = gather(b, b.norm(x, {.kind = NormOp::Kind::layer, .eps = 1e-5f, .bias = true}, "mm.norm"), 0, merge * merge);
    b.emit(GiveOp{project(b, x, "mm.0", x.width, ActivationKind::gelu_erf, "mm.2", width)});
  };
  spec.layout = [merge, table = TableReading{.side = n.side()}](std::span<const TowerPicture> pictures) {
    return grid_layout(pictures, {.merge = merge, .table = table});
  };
  spec.axes = axis_positions;
  return spec;
}

}  // namespace espalier
