// Kimi K2.5: patches of any size with learned positions, rotated by width and height in turns, waves for frames, which see
// one another; the mean of all frames, squares of patches side by side, an MLP.
// Source: Kimi K2.5 report; transformers' Kimi_K25 (MoonViT).
#include <fmt/format.h>

#include <cmath>

#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

Names kimi_k25_names() {
  Names names;
  names.layer_prefix = "vision_tower.encoder.blocks.{}.";
  names.hf = {{"attn_norm", "norm0"},
              {"ffn_norm", "norm1"},
              {"attn_qkv", "wqkv"},
              {"attn_output", "wo"},
              {"ffn_up", "mlp.fc0"},
              {"ffn_down", "mlp.fc1"},
              {"v.patch_embd", "vision_tower.patch_embed.proj|vision_tower.encoder.patch_embed.proj"},
              {"v.position_embd", "vision_tower.patch_embed.pos_emb"},
              {"v.post_norm", "vision_tower.encoder.final_layernorm"},
              {"mm.norm", "mm_projector.pre_norm"},
              {"mm.0", "mm_projector.proj.0"},
              {"mm.2", "mm_projector.proj.2"}};
  return names;
}

// Map 0: a picture's place in each of its frames, weighed by blend 2; map 1: squares of what that gives.
TowerLayout kimi_k25_layout(std::span<const TowerPicture> pictures, int merge, int times, const TableReading& table) {
  TowerLayout layout = grid_layout(pictures, {.merge = 1, .table = table, .frames_together = true});
  layout.maps.assign(2, {});
  BlendedRows waves, mean{times, {}, {}};
  layout.features.clear();
  int first = 0, place = 0;
  for (const TowerPicture& picture : pictures) {
    const int plane = picture.height * picture.width;
    for (int i = 0; i < plane; ++i)
      for (int t = 0; t < times; ++t) {
        layout.maps[0].push_back(t < picture.frames ? first + t * plane + i : -1);
        mean.weights.push_back(t < picture.frames ? 1.0f / static_cast<float>(picture.frames) : 0.0f);
      }
    for (const PatchPlace& at : patch_places(picture.height, picture.width, merge))
      layout.maps[1].push_back(place + at.y * picture.width + at.x);
    for (int i = 0; i < picture.frames * plane; ++i) {
      waves.rows.push_back(std::min(i / plane, times - 1));
      waves.weights.push_back(picture.frames > 1 ? 1.0f : 0.0f);
    }
    layout.features.push_back(plane / (merge * merge));
    first += picture.frames * plane;
    place += plane;
  }
  layout.blends.push_back(std::move(waves));
  layout.blends.push_back(std::move(mean));
  return layout;
}

// [times][width]: sines, then cosines.
std::vector<float> kimi_k25_waves(int times, int width) {
  std::vector<float> table;
  for (int t = 0; t < times; ++t)
    for (const bool sine : {true, false})
      for (int i = 0; i < width; i += 2) {
        const double angle = t / std::pow(10000.0, static_cast<double>(i) / width);
        table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
  return table;
}

}  // namespace

TowerSpec kimi_k25_tower(const TowerFields& f) {
  VisionNumbers n = vision_numbers(f.vision, {.hidden = 1152, .inner = 4304, .layers = 27, .heads = 16, .patch = 14});
  n.eps = 1e-5f;
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  const auto kernel = f.vision.integers({"merge_kernel_size"}, 2);
  const int merge = spec.merge = kernel.empty() ? 2 : static_cast<int>(kernel.front());
  const int side = std::max(1, f.vision.count_or({"pos_emb_height"}, 64, 1 << 12)),
            times = std::max(1, f.vision.count_or({"pos_emb_time"}, 4, 64));
  if (merge < 1 || merge > 64 || (kernel.size() == 2 && kernel[0] != kernel[1]) ||
      f.vision.count_or({"pos_emb_width"}, side, 1 << 12) != side)
    f.vision.refuse({"merge_kernel_size|pos_emb_width"}, "squares of merged patches and of positions are needed");
  spec.most_frames = times;
  spec.body.names = kimi_k25_names();
  Attention attention = tower_attention(n);
  attention.fused = FusedQkv::side_by_side;
  attention.pairs = true;
  const RopeSpec plane = plane_rope(n.head_dim(), rope_theta(f.vision));
  for (std::size_t i = 0; i < plane.axes.size(); ++i) {
    if (i == 0) attention.rope.emplace();
    attention.rope->inverse_frequency.push_back(plane.inverse_frequency[i / 2]);
    attention.rope->axes.push_back(i % 2 == 0 ? 2 : 1);
  }
  spec.body.layers.assign(static_cast<std::size_t>(n.layers), pre_norm(attention, tower_mlp(n)));
  spec.enter = [=, width = spec.patch_width](Builder& b) {
    const Rows x = patch_rows(b, width, {n.hidden, n.channels, n.patch, n.patch}, true);
    b.emit(BlendRowsOp{b.vector("v.position_embd", {side, side, n.hidden}), 0, x});
    b.emit(BlendRowsOp{b.constant(kimi_k25_waves(times, n.hidden)), 1, x});
    return x;
  };
  const auto eps =
      static_cast<float>(f.top.number_or({"projection_layer_norm_eps|projection_ln_eps"}, 1e-5, {.low = 0, .high = 1}));
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = b.norm(x, b.spec().norm, "v.post_norm");
    const Rows mean = b.buffer(x.width);
    b.emit(GatherRowsOp{.in = x, .out = mean, .map = 0, .count = times, .weights = 2});
    x = gather(b, b.norm(mean, {.kind = NormOp::Kind::layer, .eps = eps, .bias = true}, "mm.norm"), 1, merge * merge);
    b.emit(GiveOp{project(b, x, "mm.0", x.width, ActivationKind::gelu_erf, "mm.2", width)});
  };
  const TableReading table{.side = side, .kernel = TableReading::Kernel::cubic};
  spec.layout = [=](std::span<const TowerPicture> pictures) { return kimi_k25_layout(pictures, merge, times, table); };
  return spec;
}

}  // namespace espalier
