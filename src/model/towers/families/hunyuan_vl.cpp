// Hunyuan-VL (HunyuanOCR): patches of any size with learned positions; convolutions make one row of a square of patches, each
// line ends with a learned row, two more stand around the picture. Source: HunyuanOCR report; transformers' HunYuanVL.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

Names hunyuan_vl_names() {
  Names names;
  names.layer_prefix = "vit.layers.{}.";
  names.hf = {{"ffn_up", "mlp.dense_h_to_4h"},
              {"ffn_down", "mlp.dense_4h_to_h"},
              {"v.patch_embd", "vit.embeddings.patch_embedding"},
              {"v.position_embd", "vit.embeddings.position_embedding"},
              {"mm.pre_norm", "vit.perceive.before_rms"},
              {"mm.merge.0", "vit.perceive.proj.0"},
              {"mm.merge.2", "vit.perceive.proj.2"},
              {"mm.newline", "vit.perceive.image_newline"},
              {"mm.input", "vit.perceive.mlp"},
              {"mm.begin", "vit.perceive.image_begin"},
              {"mm.end", "vit.perceive.image_end"},
              {"mm.norm", "vit.perceive.after_rms"}};
  return names;
}

// Map 1 closes lines, by blend 1; map 2 puts a row before (blend 2) and one behind (blend 3).
TowerLayout hunyuan_vl_layout(std::span<const TowerPicture> pictures, int merge, const TableReading& table) {
  TowerLayout layout = grid_layout(pictures, {.merge = merge, .table = table});
  layout.maps.resize(3);
  layout.blends.resize(4);
  layout.features.clear();
  const auto add = [&](std::size_t map, int row, std::initializer_list<std::size_t> blends, std::size_t own) {
    layout.maps[map].push_back(row);
    for (const std::size_t blend : blends) {
      layout.blends[blend].rows.push_back(0);
      layout.blends[blend].weights.push_back(blend == own ? 1.0f : 0.0f);
    }
  };
  int row = 0, closed = 0;
  for (const TowerPicture& picture : pictures) {
    const int lines = picture.frames * (picture.height / merge), width = picture.width / merge;
    add(2, -1, {2, 3}, 2);
    for (int y = 0; y < lines; ++y) {
      for (int x = 0; x < width; ++x) add(1, row++, {1}, 0);
      add(1, -1, {1}, 1);
    }
    for (int i = 0; i < lines * (width + 1); ++i) add(2, closed++, {2, 3}, 0);
    add(2, -1, {2, 3}, 3);
    layout.features.push_back(lines * (width + 1) + 2);
  }
  return layout;
}

// A picture's rows by column, line and number of the picture, but for the two around it.
AxisPlan hunyuan_vl_axes(std::int64_t tokens, std::span<const PicturePlace> pictures) {
  AxisPlan plan;
  for (std::int32_t i = 0; i < tokens; ++i) plan.axes.push_back({i, i, i});
  std::int32_t number = 0;
  for (const PicturePlace& picture : pictures) {
    auto at = static_cast<std::size_t>(picture.first + 1);
    for (int y = 0; y < picture.height; ++y)
      for (int x = 0; x <= picture.width && at < plan.axes.size(); ++x) plan.axes[at++] = {x, y, number};
    ++number;
  }
  return plan;
}

}  // namespace

TowerSpec hunyuan_vl_tower(const TowerFields& f) {
  const VisionNumbers n = vision_numbers(
      f.vision, {.hidden = 1152, .inner = 4304, .layers = 27, .heads = 16, .activation = "gelu", .eps = 1e-5});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  const int merge = spec.merge = merge_side(f.vision);
  spec.body.names = hunyuan_vl_names();
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), pre_norm(tower_attention(n), tower_mlp(n)));
  const int side = std::max(1, f.vision.count_or({"max_image_size"}, 2048, 1 << 16) / n.patch);
  spec.enter = [=, width = spec.patch_width](Builder& b) {
    const Rows x = patch_rows(b, width, {n.hidden, n.channels, n.patch, n.patch}, true);
    add_positions(b, x, "v.position_embd", side * side + 1);
    return x;
  };
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    const Norm rms{.eps = n.eps};
    x = gather_channels(b, b.norm(x, rms, "mm.pre_norm"), 0, merge * merge);
    x = b.matmul(x, {convolution(b, "mm.merge.0", {2 * n.hidden, n.hidden, merge, merge}, true)});
    x = b.activate(x, {n.activation});
    x = b.matmul(x, {convolution(b, "mm.merge.2", {4 * n.hidden, 2 * n.hidden, 1, 1}, true)});
    x = gather(b, x, 1, 1);
    add_positions(b, x, "mm.newline", 1, 1);
    x = gather(b, b.matmul(x, {b.matrix("mm.input", width, x.width, true)}), 2, 1);
    add_positions(b, x, "mm.begin", 1, 2);
    add_positions(b, x, "mm.end", 1, 3);
    b.emit(GiveOp{b.norm(x, rms, "mm.norm")});
  };
  const TableReading table{.side = side, .first_row = 1};
  spec.layout = [=](std::span<const TowerPicture> pictures) { return hunyuan_vl_layout(pictures, merge, table); };
  spec.axes = hunyuan_vl_axes;
  return spec;
}

}  // namespace espalier
