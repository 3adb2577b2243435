// LFM2-VL: SigLIP 2 for tiles of any size, its learned positions resized; squares of patches side by side, a norm, an MLP.
// Source: arXiv 2502.14786, LFM2-VL model cards; transformers' Lfm2Vl and Siglip2.
#include <cmath>

#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {

TowerSpec lfm2_vl_tower(const TowerFields& f) {
  const VisionNumbers n = vision_numbers(f.vision, {});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  const int merge = spec.merge = static_cast<int>(f.top.integer_or({"downsample_factor"}, 2, 1, 64));
  spec.body.names = clip_names("vision_tower.vision_model.");
  spec.body.layers.assign(static_cast<std::size_t>(layers_until(f.top, {"vision_feature_layer"}, n.layers, -1)),
                          pre_norm(tower_attention(n), tower_mlp(n)));
  const int positions = std::max(1, f.vision.count_or({"num_patches"}, 256, 1 << 20));
  spec.enter = [=, width = spec.patch_width](Builder& b) {
    const Rows x = b.matmul(given_patches(b, width), {b.matrix("v.patch_embd", n.hidden, width, true)});
    add_positions(b, x, "v.position_embd", positions);
    return x;
  };
  const int inner = std::max(1, f.top.count_or({"projector_hidden_size"}, 2560, ConfigLimits::inner));
  const bool bias = f.top.flag_or({"projector_bias"}, true), normed = f.top.flag_or({"projector_use_layernorm"}, true);
  const ActivationKind how = activation_in(f.top, {"projector_hidden_act"}, "gelu");
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = gather(b, b.norm(x, b.spec().norm, "v.post_norm"), 0, merge * merge);
    if (normed) x = b.norm(x, {.kind = NormOp::Kind::layer, .eps = 1e-5f, .bias = true}, "mm.norm");
    b.emit(GiveOp{project(b, x, "mm.0", inner, how, "mm.2", width, bias)});
  };
  const TableReading table{.side = static_cast<int>(std::sqrt(static_cast<double>(positions))),
                           .kernel = TableReading::Kernel::antialiased};
  spec.layout = [=](std::span<const TowerPicture> pictures) {
    TableReading how_read = table;
    how_read.taps = table.taps_for(pictures);
    return grid_layout(pictures, {.merge = merge, .table = how_read});
  };
  return spec;
}

}  // namespace espalier
