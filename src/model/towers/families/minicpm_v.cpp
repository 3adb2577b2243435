// MiniCPM-V 4.6: SigLIP for slices of any size; behind one of its layers windows of 2 x 2 patches attend to themselves and
// become one row each, behind the last one squares of these go through an MLP.
// Source: MiniCPM-V 4.6 model cards; transformers' MiniCPMV4_6.
#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

// The bucket of `side` in which a place lies, compared as float32 numbers.
int minicpm_v_bucket(int at, int size, int side) {
  const float place = static_cast<float>(at) / static_cast<float>(size);
  int bucket = 0;
  while (bucket + 1 < side && static_cast<float>((bucket + 1) * (1.0 / side)) <= place) ++bucket;
  return bucket;
}

// Blocks of 2 x 2 patches are windows and become rows (map 0); map 1 .. merge squares again and again.
TowerLayout minicpm_v_layout(std::span<const TowerPicture> pictures, int side, int times, bool windows) {
  TowerLayout layout = grid_layout(pictures, {.blocks = 2, .merge = 2});
  layout.features.clear();
  layout.maps.resize(1 + static_cast<std::size_t>(times));
  BlendedRows& positions = layout.blends.emplace_back();
  std::vector<int> first(static_cast<std::size_t>(times));
  std::size_t row = 0;
  int patch = 0;
  for (const TowerPicture& picture : pictures) {
    for (int i = 0; i < picture.height * picture.width; ++i, ++row) {
      const AxisPositions& at = layout.axes[row];
      layout.patches[row] = patch + at[1] * picture.width + at[2];  // they come line by line
      positions.rows.push_back(minicpm_v_bucket(at[1], picture.height, side) * side +
                               minicpm_v_bucket(at[2], picture.width, side));
      positions.weights.push_back(1.0f);
      if (windows && i % 4 == 0) layout.windows.push_back({static_cast<int>(row), 4});
    }
    int height = picture.height, width = picture.width;
    if (windows) {
      height /= 2;
      width /= 2;
      layout.merged.push_back({first[0], height * width});
    }
    for (int t = 0; t < times; ++t, height /= 2, width /= 2) {
      int& before = first[static_cast<std::size_t>(t)];
      int block = before;
      // What was not merged before stands block by block already.
      for (const PatchPlace& at : patch_places(height, width, 2))
        layout.maps[1 + static_cast<std::size_t>(t)].push_back(windows || t > 0 ? before + at.y * width + at.x
                                                                                : block++);
      before += height * width;
    }
    layout.features.push_back(height * width);
    patch += picture.height * picture.width;
  }
  return layout;
}

// Attention of windows among themselves, then their rows as one: an MLP of all beside their mean.
struct WindowMerger {
  Names names;
  Attention attention;
  int hidden = 0, inner = 0;
  Norm norm;

  Rows operator()(Builder& b, Rows x) const {
    b.read_tensors_of(Builder::whole_model, &names);
    b.add(x, attention(b, b.norm(x, norm, "attn_norm")));
    const Rows mean = gather(b, x, 0, 4, true), wide = gather(b, x, 0, 4);
    b.add(mean,
          project(b, b.norm(wide, norm, "ffn_norm"), "ffn_up", inner, ActivationKind::gelu_tanh, "ffn_down", hidden));
    return mean;
  }
};

// The merger's tensors: its blocks' roles, and those under which the whole tower has them.
struct WindowName {
  std::string_view of_block, of_tower, name;
};
constexpr WindowName kWindowNames[] = {{"attn_norm", "window.norm", "layer_norm1"},
                                       {"attn_q", "window.q", "self_attn.q_proj"},
                                       {"attn_k", "window.k", "self_attn.k_proj"},
                                       {"attn_v", "window.v", "self_attn.v_proj"},
                                       {"attn_output", "window.output", "self_attn.out_proj"},
                                       {"ffn_norm", "window.ffn_norm", "pre_norm"},
                                       {"ffn_up", "window.up", "linear_1"},
                                       {"ffn_down", "window.down", "linear_2"}};

WindowMerger window_merger(TowerSpec& spec, const VisionNumbers& n) {
  WindowMerger merger{{}, tower_attention(n), n.hidden, 4 * n.inner, spec.body.norm};
  for (const WindowName& one : kWindowNames) {
    const std::string name = "vision_tower.vit_merger." + std::string(one.name);
    merger.names.hf.push_back({one.of_block, name});
    spec.body.names.hf.push_back({one.of_tower, name});
  }
  merger.attention.around = AttendOp::Around::window;
  return merger;
}

}  // namespace

TowerSpec minicpm_v_tower(const TowerFields& f) {
  const VisionNumbers n = vision_numbers(f.vision, {});
  TowerSpec spec = tower_of(f, n, NormOp::Kind::layer);
  const int times = static_cast<int>(f.top.integer_or({"merger_times"}, 1, 1, 8));
  const bool windows = f.top.word_or({"downsample_mode"}, "16x") != "4x";
  const int merger = windows ? f.vision.count_or({"insert_layer_id"}, 6, n.layers - 1) : -1;
  for (const auto& [fields, name] :
       {std::pair(&f.vision, "window_kernel_size"), std::pair(&f.top, "merge_kernel_size")})
    for (const std::int64_t side : fields->integers({name}, 2))
      if (side != 2) fields->refuse({name}, std::string(name) + " must be 2 by 2");
  spec.merge = 2 << (times - (windows ? 0 : 1));
  spec.body.names = clip_names("vision_tower.vision_model.");
  spec.body.names.hf.insert(spec.body.names.hf.end(), {{"mm.mlp.norm", "merger.mlp.{}.pre_norm"},
                                                       {"mm.mlp.0", "merger.mlp.{}.linear_1"},
                                                       {"mm.mlp.2", "merger.mlp.{}.linear_2"}});
  Attention attention = tower_attention(n);
  for (int i = 0; i < n.layers; ++i) {
    spec.body.layers.push_back(pre_norm(attention, tower_mlp(n)));
    if (i != merger) continue;
    Layer& layer = spec.body.layers.back();
    layer.body = [halves = Layer{layer.halves}, merge = window_merger(spec, n)](Builder& b, Rows x) {
      return merge(b, b.run(halves, x));
    };
    attention.around = AttendOp::Around::merged;
  }
  spec.enter = [=, width = spec.patch_width](Builder& b) { return placed_patch_rows(b, width, n); };
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = b.norm(x, b.spec().norm, "v.post_norm");
    for (int t = 0; t < times; ++t) {
      b.set_part(t);
      x = b.norm(gather(b, x, 1 + t, 4), {.kind = NormOp::Kind::layer, .eps = 1e-6f, .bias = true}, "mm.mlp.norm");
      x = project(b, x, "mm.mlp.0", x.width, ActivationKind::gelu_erf, "mm.mlp.2", t + 1 < times ? n.hidden : width);
    }
    b.set_part(0);
    b.emit(GiveOp{x});
  };
  spec.layout = [=, side = n.side()](std::span<const TowerPicture> pictures) {
    return minicpm_v_layout(pictures, side, times, windows);
  };
  return spec;
}

}  // namespace espalier
