// Llama 4: tiles with a class token, rotated by width and height counted from 1; squares of patches side by side through an
// MLP, then one matrix. Source: Llama 4 model cards; transformers' Llama4Vision.
#include <cmath>

#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

Names llama4_tower_names() {
  Names names;
  names.layer_prefix = "vision_model.model.layers.{}.";
  names.hf = {{"ffn_up", "mlp.fc1"},
              {"ffn_down", "mlp.fc2"},
              {"v.patch_embd", "vision_model.patch_embedding.linear"},
              {"v.position_embd", "vision_model.positional_embedding_vlm"},
              {"v.class_embd", "vision_model.class_embedding"},
              {"v.pre_norm", "vision_model.layernorm_pre"},
              {"v.post_norm", "vision_model.layernorm_post"},
              {"mm.0", "vision_model.vision_adapter.mlp.fc1"},
              {"mm.2", "vision_model.vision_adapter.mlp.fc2"},
              {"mm.input", "multi_modal_projector.linear_1"}};
  return names;
}

// The class token has the table's last row, and the place before the first patch.
TowerLayout llama4_layout(std::span<const TowerPicture> pictures, int merge) {
  TowerLayout layout = tile_layout(pictures, merge, true);
  for (const RowSpan& tile : layout.spans)
    for (int i = 0; i < tile.rows; ++i) {
      const auto row = static_cast<std::size_t>(tile.begin + i);
      layout.blends[0].rows[row] = i > 0 ? i - 1 : tile.rows - 1;
      if (i > 0) layout.axes[row] = {0, layout.axes[row][1] + 1, layout.axes[row][2] + 1};
    }
  return layout;
}

}  // namespace

TowerSpec llama4_tower(const TowerFields& f) {
  VisionNumbers n = vision_numbers(f.vision, {.inner = 5632, .layers = 34, .heads = 16, .patch = 14, .image = 448});
  n.activation = ActivationKind::gelu_erf;
  n.eps = 1e-5f;
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  spec.planes = n.channels;
  spec.patch = n.patch;
  spec.side = n.side();
  const double ratio = f.vision.number_or({"pixel_shuffle_ratio"}, 0.5, {.low = 0.01, .high = 1});
  const int merge = spec.merge = std::max(1, static_cast<int>(std::round(1 / ratio)));
  spec.body.names = llama4_tower_names();
  Attention attention = tower_attention(n);
  attention.pairs = true;
  attention.rope = plane_rope(n.head_dim(), rope_theta(f.vision));
  for (std::uint8_t& axis : attention.rope->axes) axis = axis == 1 ? 2 : 1;
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), pre_norm(attention, tower_mlp(n)));
  spec.enter = [=, width = spec.patch_width](Builder& b) {
    const Rows x = b.matmul(given_patches(b, width), {b.matrix("v.patch_embd", n.hidden, width)});
    add_positions(b, x, "v.position_embd", n.side() * n.side() + 1);
    b.emit(BlendRowsOp{b.vector("v.class_embd", {n.hidden}), 1, x});
    return b.norm(x, b.spec().norm, "v.pre_norm");
  };
  const int inner = std::max(1, f.vision.count_or({"projector_input_dim"}, 4096, ConfigLimits::inner)),
            out = std::max(1, f.vision.count_or({"projector_output_dim"}, 4096, ConfigLimits::inner));
  const bool bias = f.vision.flag_or({"multi_modal_projector_bias"}, false);
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = gather(b, b.norm(x, b.spec().norm, "v.post_norm"), 0, merge * merge);
    x = b.activate(project(b, x, "mm.0", inner, n.activation, "mm.2", out, false), {n.activation});
    b.emit(GiveOp{b.matmul(x, {b.matrix("mm.input", width, out, bias)})});
  };
  spec.layout = [merge](std::span<const TowerPicture> pictures) { return llama4_layout(pictures, merge); };
  return spec;
}

}  // namespace espalier
