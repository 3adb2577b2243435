#include "model/towers/tower_parts.h"

#include <fmt/format.h>

#include <cmath>

#include "model/arch/parts.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// One number, or the same for height and width.
int side_of(const Fields& f, FieldName name, int otherwise) {
  const Json* value = f.find(name);
  if (value == nullptr || !value->is_array()) return std::max(1, f.count_or(name, otherwise, 1 << 16));
  const auto both = f.integers(name, 2);
  if (both.size() != 2 || both[0] != both[1] || both[0] < 1 || both[0] > (1 << 16)) {
    f.refuse(name, fmt::format("{} must be one number, or the same for height and width", f.path(name)));
    return 1;
  }
  return static_cast<int>(both[0]);
}

}  // namespace

VisionNumbers vision_numbers(const Fields& f, const VisionDefaults& d) {
  VisionNumbers n;
  const auto count = [&](FieldName name, int otherwise, std::int64_t most) {
    return std::max(1, f.count_or(name, otherwise, most));
  };
  n.hidden = count({"embed_dim|hidden_size"}, d.hidden, ConfigLimits::hidden);
  n.inner = count({"intermediate_size"}, d.inner, ConfigLimits::inner);
  n.layers = count({"depth|num_hidden_layers"}, d.layers, ConfigLimits::layers);
  n.heads = count({"num_heads|num_attention_heads"}, d.heads, ConfigLimits::heads);
  n.patch = side_of(f, {"patch_size"}, d.patch);
  n.image = side_of(f, {"image_size"}, d.image);
  n.channels = count({"in_channels|in_chans|num_channels"}, 3, 16);
  n.frames = count({"temporal_patch_size"}, d.frames, 16);
  n.activation = activation_of(f, d.activation);
  n.eps = static_cast<float>(
      f.number_or({"layer_norm_eps|rms_norm_eps|norm_eps"}, d.eps, {.low = 0, .high = 1, .above_low = true}));
  if (n.side() < 1) {
    f.refuse({"image_size"}, fmt::format("image_size is {}, less than a patch, which is {}", n.image, n.patch));
    n.image = n.patch;
  }
  if (n.hidden % n.heads != 0 || n.head_dim() % 4 != 0 || n.head_dim() > ConfigLimits::value_dim) {
    f.refuse(
        {"num_attention_heads|num_heads"},
        fmt::format(
            "{} heads must divide the tower's width, which is {}, and have a multiple of 4 values each, at most {}",
            n.heads, n.hidden, ConfigLimits::value_dim));
    n.heads = 1;
    n.hidden = 4;
  }
  if (std::int64_t{n.channels} * n.frames * n.patch * n.patch > ConfigLimits::inner) {
    f.refuse({"patch_size"}, fmt::format("a patch of {} x {} has too many values", n.patch, n.patch));
    n.patch = 1;
  }
  return n;
}

int merge_side(const Fields& f) {
  return static_cast<int>(f.integer_or({"spatial_merge_size"}, 2, 1, 64));
}

int layers_until(const Fields& top, FieldName name, int all, int otherwise) {
  const auto state = top.integer_or(name, otherwise, -all - 1, all);
  return static_cast<int>(state < 0 ? all + 1 + state : state);
}

TowerSpec tower_of(const TowerFields& f, const VisionNumbers& n, NormOp::Kind norm) {
  TowerSpec spec;
  spec.body.hidden = n.hidden;
  spec.body.norm = {.kind = norm, .eps = n.eps, .bias = norm == NormOp::Kind::layer};
  spec.patch_width = n.channels * n.frames * n.patch * n.patch;
  spec.features_width = hidden_size(f.text);
  return spec;
}

Attention tower_attention(const VisionNumbers& n) {
  Attention a;
  a.heads = a.kv_heads = n.heads;
  a.head_dim = n.head_dim();
  a.qkv_bias = a.out_bias = true;
  a.around = AttendOp::Around::span;
  return a;
}

Mlp tower_mlp(const VisionNumbers& n) {
  Mlp mlp{.inner = n.inner, .gated = false, .bias = true};
  mlp.how.activation.kind = n.activation;
  return mlp;
}

double rope_theta(const Fields& vision, double otherwise) {
  const NumberRange range{.low = 1, .high = 1e9};
  return vision.at({"rope_parameters"})
      .number_or({"rope_theta"}, vision.number_or({"rope_theta"}, otherwise, range), range);
}

RopeSpec plane_rope(int head_dim, double theta) {
  RopeSpec rope;
  const int half = head_dim / 2;
  for (const std::uint8_t axis : {std::uint8_t{1}, std::uint8_t{2}})
    for (int i = 0; i < half; i += 2) {
      rope.inverse_frequency.push_back(static_cast<float>(1.0 / std::pow(theta, static_cast<double>(i) / half)));
      rope.axes.push_back(axis);
    }
  return rope;
}

RopeSpec plane_rope_in_turns(int head_dim, double theta) {
  RopeSpec rope;
  for (const std::uint8_t axis : {std::uint8_t{1}, std::uint8_t{2}})
    for (int i = 2 * (axis - 1); i < head_dim; i += 4) {
      rope.inverse_frequency.push_back(static_cast<float>(1.0 / std::pow(theta, static_cast<double>(i) / head_dim)));
      rope.axes.push_back(axis);
    }
  return rope;
}

Names clip_names(const std::string& tower) {
  Names names;
  names.layer_prefix = tower + "encoder.layers.{}.";
  names.hf = {{"attn_norm", "layer_norm1"},
              {"ffn_norm", "layer_norm2"},
              {"attn_output", "self_attn.out_proj"},
              {"ffn_up", "mlp.fc1"},
              {"ffn_down", "mlp.fc2"},
              {"v.patch_embd", tower + "embeddings.patch_embedding"},
              {"v.position_embd", tower + "embeddings.position_embedding"},
              {"v.class_embd", tower + "embeddings.class_embedding"},
              {"v.pre_norm", tower + "pre_layrnorm"},
              {"v.post_norm", tower + "post_layernorm"},
              {"mm.norm", "multi_modal_projector.layer_norm"},
              {"mm.0", "multi_modal_projector.linear_1"},
              {"mm.2", "multi_modal_projector.linear_2"}};
  return names;
}

MatrixPart convolution(const Builder& b, std::string_view role, Shape shape, bool bias) {
  std::int64_t inputs = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) inputs *= shape[i];
  MatrixPart part = b.matrix(role, static_cast<int>(shape.front()), static_cast<int>(inputs), bias);
  part.joined_rows = static_cast<int>(inputs / shape.back());
  part.shape = std::move(shape);
  return part;
}

Rows placed_patch_rows(Builder& b, int patch_width, const VisionNumbers& n) {
  const Rows x = patch_rows(b, patch_width, {n.hidden, n.channels, n.patch, n.patch}, true);
  add_positions(b, x, "v.position_embd", n.side() * n.side());
  return x;
}

Rows given_patches(Builder& b, int patch_width) {
  const Rows patches = b.buffer(patch_width);
  b.emit(TakeGivenOp{0, patches, TakeGivenOp::How::set});
  return patches;
}

Rows patch_rows(Builder& b, int patch_width, Shape shape, bool bias) {
  return b.matmul(given_patches(b, patch_width), {convolution(b, "v.patch_embd", std::move(shape), bias)});
}

void add_positions(Builder& b, Rows x, std::string_view role, std::int64_t rows, int blend) {
  b.emit(BlendRowsOp{b.vector(role, {rows, x.width}), blend, x});
}

Rows project(Builder& b, Rows x, std::string_view up, int inner, ActivationKind how, std::string_view down, int out,
             bool bias) {
  const Rows wide = b.activate(b.matmul(x, {b.matrix(up, inner, x.width, bias)}), {how});
  return b.matmul(wide, {b.matrix(down, out, inner, bias)});
}

Rows gather(Builder& b, Rows x, int map, int count, bool mean) {
  const Rows out = b.buffer(mean ? x.width : x.width * count);
  b.emit(GatherRowsOp{x, out, map, count, mean});
  return out;
}

Rows gather_channels(Builder& b, Rows x, int map, int count) {
  const Rows beside = gather(b, x, map, count), out = b.buffer(beside.width);
  for (int i = 0; i < count; ++i)
    b.emit(CopyOp{.in = beside.part(i * x.width, x.width),
                  .out = out.part(i, (x.width - 1) * count + 1),
                  .count = x.width,
                  .width = 1,
                  .in_stride = 1,
                  .out_stride = count});
  return out;
}

}  // namespace espalier
