// MiniMax-M3-VL: patches of two frames in blocks, rotated by time, height and width, all frames of a picture together; an MLP
// for each patch, then another for the rows of a block side by side. Source: transformers' MiniMaxM3VL.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

// A third of each head for an axis; what is left does not turn.
RopeSpec minimax_m3_rope(int head_dim, double theta) {
  const int each = head_dim / 3 / 2;
  RopeSpec rope;
  if (each == 0) return rope;
  const RopeSpec plane = plane_rope(4 * each, theta);
  for (const std::uint8_t axis : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{2}})
    for (int i = 0; i < each; ++i) {
      rope.inverse_frequency.push_back(plane.inverse_frequency[static_cast<std::size_t>(i)]);
      rope.axes.push_back(axis);
    }
  return rope;
}

}  // namespace

TowerSpec minimax_m3_tower(const TowerFields& f) {
  const VisionNumbers n = vision_numbers(f.vision, {.hidden = 1280,
                                                    .inner = 5120,
                                                    .layers = 32,
                                                    .heads = 16,
                                                    .patch = 14,
                                                    .image = 2016,
                                                    .frames = 2,
                                                    .activation = "gelu",
                                                    .eps = 1e-5});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  const int merge = spec.merge = merge_side(f.vision);
  spec.body.names = clip_names("vision_tower.vision_model.");
  spec.body.names.hf.push_back({"mm.merge.0", "patch_merge_mlp.linear_1|multi_modal_projector.merge_linear_1"});
  spec.body.names.hf.push_back({"mm.merge.2", "patch_merge_mlp.linear_2|multi_modal_projector.merge_linear_2"});
  Attention attention = tower_attention(n);
  attention.rope = minimax_m3_rope(n.head_dim(), rope_theta(f.vision));
  if (attention.rope->axes.empty()) attention.rope.reset();
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), pre_norm(attention, tower_mlp(n)));
  spec.enter = [=, width = spec.patch_width](Builder& b) {
    const Rows x = patch_rows(b, width, {n.hidden, n.channels, n.frames, n.patch, n.patch}, false);
    return b.norm(x, b.spec().norm, "v.pre_norm");
  };
  const int inner = std::max(1, f.top.count_or({"projector_hidden_size"}, 6144, ConfigLimits::inner));
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = project(b, x, "mm.0", inner, ActivationKind::gelu_erf, "mm.2", width);
    x = gather(b, x, 0, merge * merge);
    b.emit(GiveOp{project(b, x, "mm.merge.0", inner, ActivationKind::gelu_erf, "mm.merge.2", width)});
  };
  spec.layout = [merge](std::span<const TowerPicture> pictures) {
    return grid_layout(pictures, {.blocks = merge, .merge = merge, .frames_together = true});
  };
  return spec;
}

}  // namespace espalier
