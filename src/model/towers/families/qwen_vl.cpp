// Qwen2-VL, Qwen2.5-VL and Qwen3-VL: patches of two frames in blocks, rotated by height and width, each frame by itself;
// the rows of a block side by side through an MLP. Qwen2.5's layers see windows, but for a few; Qwen3 adds learned positions
// and gives rows for the text model's first layers.
// Source: arXiv 2409.12191, 2502.13923, 2511.21631; transformers' Qwen2VL, Qwen2_5_VL, Qwen3VL.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

Names qwen_vl_names() {
  Names names;
  names.layer_prefix = "visual.blocks.{}.";
  names.hf = {{"attn_norm", "norm1"},
              {"ffn_norm", "norm2"},
              {"attn_qkv", "attn.qkv"},
              {"attn_output", "attn.proj"},
              {"ffn_up", "mlp.fc1|mlp.linear_fc1|mlp.up_proj"},
              {"ffn_down", "mlp.fc2|mlp.linear_fc2|mlp.down_proj"},
              {"v.patch_embd", "visual.patch_embed.proj"},
              {"v.position_embd", "visual.pos_embed"},
              {"v.post_norm", "visual.merger.ln_q|visual.merger.norm"},
              {"mm.0", "visual.merger.mlp.0|visual.merger.linear_fc1"},
              {"mm.2", "visual.merger.mlp.2|visual.merger.linear_fc2"},
              {"deep.norm", "visual.deepstack_merger_list.{}.norm"},
              {"deep.0", "visual.deepstack_merger_list.{}.linear_fc1"},
              {"deep.2", "visual.deepstack_merger_list.{}.linear_fc2"}};
  return names;
}

struct QwenCommon {
  VisionNumbers n;
  TowerSpec spec;
  Attention attention;
};

// What all three have: the numbers, blocks of patches, rotation, one matrix of queries, keys and values.
QwenCommon qwen_common(const TowerFields& f, const VisionDefaults& defaults, NormOp::Kind norm, bool patch_bias) {
  QwenCommon c;
  c.n = vision_numbers(f.vision, defaults);
  c.n.eps = 1e-6f;
  c.spec = tower_of(f, c.n, norm);
  c.spec.merge = merge_side(f.vision);
  c.spec.body.names = qwen_vl_names();
  c.attention = tower_attention(c.n);
  c.attention.fused = FusedQkv::side_by_side;
  c.attention.rope = plane_rope(c.n.head_dim(), rope_theta(f.vision));
  c.spec.enter = [n = c.n, width = c.spec.patch_width, patch_bias](Builder& b) {
    return patch_rows(b, width, {n.hidden, n.channels, n.frames, n.patch, n.patch}, patch_bias);
  };
  c.spec.axes = axis_positions;
  c.spec.leave = [merge = c.spec.merge, width = c.spec.features_width](Builder& b, Rows x) {
    x = gather(b, b.norm(x, b.spec().norm, "v.post_norm"), 0, merge * merge);
    b.emit(GiveOp{project(b, x, "mm.0", x.width, ActivationKind::gelu_erf, "mm.2", width)});
  };
  c.spec.layout = [merge = c.spec.merge](std::span<const TowerPicture> pictures) {
    return grid_layout(pictures, {.blocks = merge, .merge = merge});
  };
  return c;
}

// Rows for one of the text model's first layers: blocks side by side, normed as a whole.
void give_deep(Builder& b, Rows x, int index, int merge, int width) {
  b.set_part(index);
  x = gather(b, x, 0, merge * merge);
  x = b.norm(x, b.spec().norm, "deep.norm");
  b.emit(GiveOp{project(b, x, "deep.0", x.width, ActivationKind::gelu_erf, "deep.2", width), 1 + index});
  b.emit(AllRowsOp{});
  b.set_part(0);
}

}  // namespace

TowerSpec qwen2_vl_tower(const TowerFields& f) {
  QwenCommon c =
      qwen_common(f, {.hidden = 1280, .layers = 32, .heads = 16, .patch = 14, .frames = 2, .activation = "quick_gelu"},
                  NormOp::Kind::layer, false);
  if (!f.vision.has({"intermediate_size"}))
    c.n.inner = static_cast<int>(c.n.hidden * f.vision.number_or({"mlp_ratio"}, 4, {.low = 0.1, .high = 64}));
  c.spec.body.layers.assign(static_cast<std::size_t>(c.n.layers), pre_norm(c.attention, tower_mlp(c.n)));
  return std::move(c.spec);
}

TowerSpec qwen25_vl_tower(const TowerFields& f) {
  QwenCommon c = qwen_common(
      f, {.hidden = 3584, .inner = 3420, .layers = 32, .heads = 16, .patch = 14, .frames = 2, .activation = "silu"},
      NormOp::Kind::rms, false);
  Mlp mlp{.inner = c.n.inner, .bias = true};
  mlp.how.activation.kind = c.n.activation;
  Attention windowed = c.attention;
  windowed.around = AttendOp::Around::window;
  for (int i = 0; i < c.n.layers; ++i)
    c.spec.body.layers.push_back(pre_norm(f.vision.lists({"fullatt_block_indexes"}, i) ? c.attention : windowed, mlp));
  const int size = f.vision.count_or({"window_size"}, 112, 1 << 16);
  const int window = std::max(1, size / c.spec.merge / c.n.patch);
  c.spec.layout = [merge = c.spec.merge, window](std::span<const TowerPicture> pictures) {
    TowerLayout layout = grid_layout(pictures, {.blocks = merge, .merge = merge});
    order_by_windows(layout, pictures, merge, window);
    return layout;
  };
  const double per_second = f.vision.number_or({"tokens_per_second"}, 4, {.low = 0, .high = 1e6});
  c.spec.axes = [per_second](std::int64_t tokens, std::span<const PicturePlace> pictures) {
    return axis_positions_in_time(tokens, pictures, per_second);
  };
  // Features come in the order of the picture.
  c.spec.leave = [merge = c.spec.merge, width = c.spec.features_width](Builder& b, Rows x) {
    x = gather(b, b.norm(x, b.spec().norm, "v.post_norm"), 0, merge * merge);
    x = project(b, x, "mm.0", x.width, ActivationKind::gelu_erf, "mm.2", width);
    b.emit(GiveOp{gather(b, x, 1, 1)});
  };
  return std::move(c.spec);
}

TowerSpec qwen3_vl_tower(const TowerFields& f) {
  QwenCommon c = qwen_common(f, {.hidden = 1152, .inner = 4304, .layers = 27, .heads = 16, .frames = 2},
                             NormOp::Kind::layer, true);
  c.spec.body.layers.assign(static_cast<std::size_t>(c.n.layers), pre_norm(c.attention, tower_mlp(c.n)));
  const int positions = std::max(1, f.vision.count_or({"num_position_embeddings"}, 2304, 1 << 20));
  TableReading table{.side = static_cast<int>(std::sqrt(static_cast<double>(positions))), .corners_meet = true};
  c.spec.enter = [=, enter = c.spec.enter](Builder& b) {
    const Rows x = enter(b);
    add_positions(b, x, "v.position_embd", positions);
    return x;
  };
  const auto deep = f.vision.integers({"deepstack_visual_indexes"}, 64);
  c.spec.deep_outputs = static_cast<int>(deep.size());
  c.spec.behind = [=, merge = c.spec.merge, width = c.spec.features_width](Builder& b, int layer, Rows x) {
    for (std::size_t i = 0; i < deep.size(); ++i)
      if (deep[i] == layer) give_deep(b, x, static_cast<int>(i), merge, width);
  };
  c.spec.layout = [=, merge = c.spec.merge](std::span<const TowerPicture> pictures) {
    return grid_layout(pictures, {.blocks = merge, .merge = merge, .table = table});
  };
  return std::move(c.spec);
}

}  // namespace espalier
