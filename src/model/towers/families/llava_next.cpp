// LLaVA-NeXT and LLaVA-OneVision: the whole picture in small, then tiles of it put together again, without the padding
// around the picture, each line closed by a learned row. OneVision shrinks what is more than some tiles.
// Source: arXiv 2408.03326; transformers' LlavaNext and LlavaOnevision.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/parts.h"
#include "model/program/builder.h"
#include "model/towers/families/families.h"

namespace espalier {
namespace {

// Tiles beside and above one another.
struct TileGrid {
  int rows = 0, columns = 0;
};

// What the tiles' patches become.
struct AnyResolution {
  int side = 1;                                               // patches of a tile
  int image = 1;                                              // pixels of a tile
  std::vector<std::pair<std::int64_t, std::int64_t>> shapes;  // height and width that a picture may be scaled into
  bool own_row = false;
  int most_tiles = 0;  // what is more is shrunk; 0: nothing is

  TileGrid grid_of(const TowerPicture& picture) const;
};

// The shape in which most of the picture's pixels remain, of those the one with the least waste.
TileGrid AnyResolution::grid_of(const TowerPicture& picture) const {
  const std::int64_t height = std::max(1, picture.original_height), width = std::max(1, picture.original_width);
  std::int64_t best = -1, least_waste = 0;
  TileGrid grid;
  for (const auto& [h, w] : shapes) {
    const double scale = std::min(static_cast<double>(w) / static_cast<double>(width),
                                  static_cast<double>(h) / static_cast<double>(height));
    const auto used_width = static_cast<std::int64_t>(static_cast<double>(width) * scale),
               used_height = static_cast<std::int64_t>(static_cast<double>(height) * scale);
    const std::int64_t used = std::min(used_width * used_height, width * height), waste = h * w - used;
    if (used < best || (used == best && waste >= least_waste)) continue;
    best = used;
    least_waste = waste;
    grid = {static_cast<int>(h / image), static_cast<int>(w / image)};
  }
  return grid;
}

// Lines and columns of the tiles' common grid where the picture itself is.
struct Inside {
  int top = 0, bottom = 0, left = 0, right = 0;
};
Inside inside_of(const TowerPicture& picture, int height, int width) {
  const double original_height = picture.original_height, original_width = picture.original_width;
  const auto rounded = [](double value) { return static_cast<int>(std::round(value * 1e7) / 1e7); };
  if (original_width / original_height > static_cast<double>(width) / height) {
    const int cut = (height - rounded(original_height * (width / original_width))) / 2;
    return {cut, height - cut, 0, width};
  }
  const int cut = (width - rounded(original_width * (height / original_height))) / 2;
  return {0, height, cut, width - cut};
}

// Makes the second map: rows of the features in the order of the text, and where a line is closed.
class Assembly {
 public:
  Assembly(const AnyResolution& how, TowerLayout& layout) : how_(how), layout_(layout) {
    layout_.maps.resize(2);
    layout_.blends.resize(4);
    layout_.blends[2].count = 1;
    layout_.blends[3].count = kTaps;
  }
  // first: the picture's first row among those of the first map.
  int add(const TowerPicture& picture, int first) {
    const auto before = layout_.maps[1].size();
    if (picture.film) return add_film(picture, first);
    for (int i = 0; i < how_.side * how_.side; ++i) add_row({{first + i, 1.0f}});
    if (picture.tiles > 1)
      add_tiles(picture, first + how_.side * how_.side);
    else
      close_line();
    return static_cast<int>((layout_.maps[1].size() - before) / kTaps);
  }
  static constexpr int kTaps = 4;

 private:
  using Taps = std::vector<std::pair<int, float>>;
  void add_row(Taps taps) {
    taps.resize(kTaps, {-1, 0.0f});
    for (const auto& [row, weight] : taps) {
      layout_.maps[1].push_back(row);
      layout_.blends[3].weights.push_back(weight);
    }
    layout_.blends[2].rows.push_back(0);
    layout_.blends[2].weights.push_back(0.0f);
  }
  void close_line() {
    add_row({});
    layout_.blends[2].weights.back() = 1.0f;
  }
  void add_tiles(const TowerPicture& picture, int first);
  int add_film(const TowerPicture& picture, int first);
  // Two neighbours along one axis that has `size` places, read at `at` of `wanted`.
  static std::array<std::pair<int, float>, 2> between(int at, int wanted, int size) {
    const double source = std::max(0.0, (at + 0.5) * size / wanted - 0.5);
    const int low = std::min(static_cast<int>(source), size - 1), high = std::min(low + 1, size - 1);
    const auto part = static_cast<float>(source - low);
    return {{{low, 1 - part}, {high, part}}};
  }

  const AnyResolution& how_;
  TowerLayout& layout_;
};

void Assembly::add_tiles(const TowerPicture& picture, int first) {
  const TileGrid grid = how_.grid_of(picture);
  const int side = how_.side;
  const Inside in = inside_of(picture, grid.rows * side, grid.columns * side);
  const auto row = [&](int y, int x) {
    y += in.top;
    x += in.left;
    return first + (y / side * grid.columns + x / side) * side * side + y % side * side + x % side;
  };
  const int height = in.bottom - in.top, width = in.right - in.left;
  int to_height = height, to_width = width;
  if (how_.most_tiles > 0) {
    const double ratio = std::sqrt(static_cast<double>(height) * width / (how_.most_tiles * side * side));
    if (ratio > 1.1) {
      to_height = static_cast<int>(height / ratio);
      to_width = static_cast<int>(width / ratio);
    }
  }
  for (int y = 0; y < to_height; ++y) {
    for (int x = 0; x < to_width; ++x) {
      Taps taps;
      if (to_height == height && to_width == width)
        taps.emplace_back(row(y, x), 1.0f);
      else
        for (const auto& [from_y, weight_y] : between(y, to_height, height))
          for (const auto& [from_x, weight_x] : between(x, to_width, width))
            taps.emplace_back(row(from_y, from_x), weight_y * weight_x);
      add_row(std::move(taps));
    }
    close_line();
  }
}

// Each frame at half its lines and columns, and one closing row behind them all.
int Assembly::add_film(const TowerPicture& picture, int first) {
  const int side = how_.side, half = (side + 1) / 2;
  for (int frame = 0; frame < picture.frames; ++frame) {
    for (int y = 0; y < half; ++y)
      for (int x = 0; x < half; ++x) {
        Taps taps;
        for (const auto& [from_y, weight_y] : between(y, half, side))
          for (const auto& [from_x, weight_x] : between(x, half, side))
            taps.emplace_back(first + (frame * side + from_y) * side + from_x, weight_y * weight_x);
        add_row(std::move(taps));
      }
  }
  close_line();
  return picture.frames * half * half + 1;
}

TowerLayout llava_next_layout(std::span<const TowerPicture> pictures, const AnyResolution& how) {
  LayoutMaker maker;
  int first = 0;
  std::vector<int> firsts;
  for (const TowerPicture& picture : pictures) {
    firsts.push_back(first);
    for (int tile = 0; tile < picture.tiles * picture.frames; ++tile) {
      maker.add_grid(picture.height, picture.width, how.own_row);
      maker.blend_in_order(0);
      maker.blend_own_row(1);
      maker.map_squares(0, 1);
      first += picture.height * picture.width;
    }
  }
  Assembly assembly(how, maker.layout);
  for (std::size_t i = 0; i < pictures.size(); ++i) maker.end_picture(assembly.add(pictures[i], firsts[i]));
  return std::move(maker.layout);
}

AnyResolution any_resolution(const TowerFields& f, const VisionNumbers& n, bool own_row) {
  AnyResolution how{.side = n.side(), .image = n.image, .shapes = {}, .own_row = own_row};
  const FieldName name{"image_grid_pinpoints"};
  const Json* list = f.top.find(name);
  for (const Json& shape : list != nullptr && list->is_array() ? *list : Json::array()) {
    const bool pair =
        shape.is_array() && shape.size() == 2 && shape[0].is_number_integer() && shape[1].is_number_integer();
    const std::int64_t h = pair ? shape[0].get<std::int64_t>() : 0, w = pair ? shape[1].get<std::int64_t>() : 0;
    if (h < n.image || w < n.image || h > 64 * std::int64_t{n.image} || w > 64 * std::int64_t{n.image})
      f.top.refuse(name, fmt::format("{} must list pairs of a height and a width, 1 to 64 times {} each",
                                     f.top.path(name), n.image));
    how.shapes.emplace_back(h, w);
  }
  if (how.shapes.empty() || how.shapes.size() > 4096)
    f.top.refuse(name, fmt::format("{} must list between 1 and 4096 shapes", f.top.path(name)));
  const std::string aspect = f.top.word_or({"vision_aspect_ratio"}, "");
  if (aspect.starts_with("anyres_max_")) how.most_tiles = std::clamp(std::atoi(aspect.c_str() + 11), 1, 1 << 12);
  return how;
}

}  // namespace

TowerSpec llava_next_tower(const TowerFields& f) {
  TowerSpec spec = llava_tower(f);
  const bool clip = f.vision.word_or({"model_type"}, "clip_vision_model") != "siglip_vision_model";
  const VisionNumbers n = vision_numbers(f.vision, {.patch = clip ? 32 : 16});
  const AnyResolution how = any_resolution(f, n, clip);
  spec.body.names.hf.push_back({"mm.newline", "image_newline"});
  const ActivationKind activation = activation_in(f.top, {"projector_hidden_act"}, "gelu");
  const bool bias = f.top.flag_or({"multimodal_projector_bias"}, true);
  spec.leave = [=, width = spec.features_width](Builder& b, Rows x) {
    x = project(b, clip ? gather(b, x, 0, 1) : x, "mm.0", width, activation, "mm.2", width, bias);
    const Rows out = b.buffer(width);
    b.emit(GatherRowsOp{.in = x, .out = out, .map = 1, .count = Assembly::kTaps, .weights = 3});
    add_positions(b, out, "mm.newline", 1, 2);
    b.emit(GiveOp{out});
  };
  spec.tiles = [how](const TowerPicture& picture) {
    if (picture.film) return 1;
    const TileGrid grid = how.grid_of(picture);
    return 1 + grid.rows * grid.columns;
  };
  spec.layout = [how](std::span<const TowerPicture> pictures) { return llava_next_layout(pictures, how); };
  return spec;
}

}  // namespace espalier
