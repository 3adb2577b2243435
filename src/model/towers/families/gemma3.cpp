// Gemma 3: SigLIP, pooled to a few rows, normed and projected. In the text the rows of a picture see one another.
// Source: arXiv 2503.19786; transformers' Gemma3.
#include <cmath>

#include <fmt/format.h>

#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

// How many patches a side become one row.
int pooled_side(const TowerFields& f, const VisionNumbers& n) {
  const FieldName name{"mm_tokens_per_image"};
  const int rows = std::max(1, f.top.count_or(name, 256, 1 << 20));
  const int side = static_cast<int>(std::sqrt(static_cast<double>(rows)));
  if (side > n.side() || n.side() % side != 0)
    f.top.refuse(name, fmt::format("{} is {}, whose root must divide the {} patches of a side", f.top.path(name), rows,
                                   n.side()));
  return std::max(1, n.side() / std::max(1, side));
}

}  // namespace

TowerSpec gemma3_tower(const TowerFields& f) {
  const VisionNumbers n = vision_numbers(f.vision, {});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  spec.planes = n.channels;
  spec.patch = n.patch;
  spec.side = n.side();
  spec.body.names = clip_names("vision_tower.vision_model.");
  spec.body.names.hf.push_back({"mm.soft_norm", "multi_modal_projector.mm_soft_emb_norm"});
  spec.body.names.hf.push_back({"mm.input", "multi_modal_projector.mm_input_projection_weight"});
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), pre_norm(tower_attention(n), tower_mlp(n)));
  spec.enter = [=, width = spec.patch_width](Builder& b) { return placed_patch_rows(b, width, n); };
  const int pooled = pooled_side(f, n);
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = gather(b, b.norm(x, b.spec().norm, "v.post_norm"), 0, pooled * pooled, true);
    x = b.norm(x, {.eps = n.eps, .one_plus = true}, "mm.soft_norm");
    MatrixPart part{b.name("mm.input"), {n.hidden, width}, width};
    part.transposed = true;
    b.emit(GiveOp{b.matmul(x, {std::move(part)})});
  };
  spec.layout = [pooled](std::span<const TowerPicture> pictures) { return tile_layout(pictures, pooled); };
  return spec;
}

}  // namespace espalier
