// Llama 4: the canvas of tiles that the picture fits with least change, black at the right and below, cut into tiles; the
// whole once more in one tile where there are several. Pixels are not rounded to bf16 on the way, as Meta's own steps do.
#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

// Canvases of up to `most` tiles; those of one ratio stand together, in the order in which ratios first come.
std::vector<Size> canvases(int most, int tile) {
  std::vector<std::pair<double, std::vector<Size>>> by_ratio;
  for (int tiles = most; tiles >= 1; --tiles) {
    for (int height = 1; height <= tiles; ++height) {
      if (tiles % height != 0) continue;
      int width = tiles / height;
      double ratio = static_cast<double>(height) / width;
      auto same =
          std::find_if(by_ratio.begin(), by_ratio.end(), [&](const auto& entry) { return entry.first == ratio; });
      if (same == by_ratio.end()) same = by_ratio.insert(by_ratio.end(), {ratio, {}});
      same->second.push_back({height * tile, width * tile});
    }
  }
  std::vector<Size> all;
  for (const auto& [ratio, sizes] : by_ratio) all.insert(all.end(), sizes.begin(), sizes.end());
  return all;
}

float scale_to(Size picture, Size canvas) {  // in single precision, as torch divides integers
  return std::min(static_cast<float>(canvas.height) / static_cast<float>(picture.height),
                  static_cast<float>(canvas.width) / static_cast<float>(picture.width));
}

// Least enlarging (or, to_largest, most), else least shrinking; of equals the smallest area, the first.
Size best_canvas(Size picture, std::span<const Size> all, bool to_largest) {
  std::optional<float> chosen;
  bool enlarges = std::any_of(all.begin(), all.end(), [&](Size canvas) { return scale_to(picture, canvas) >= 1; });
  for (Size canvas : all) {
    float scale = scale_to(picture, canvas);
    if (enlarges && scale < 1) continue;
    bool larger = enlarges ? to_largest : true;
    if (!chosen || (larger ? scale > *chosen : scale < *chosen)) chosen = scale;
  }
  std::optional<Size> best;
  for (Size canvas : all) {
    if (scale_to(picture, canvas) == *chosen && (!best || canvas.height * canvas.width < best->height * best->width))
      best = canvas;
  }
  return *best;
}

Size undistorted(Size picture, Size target) {
  double across = static_cast<double>(target.width) / picture.width,
         down = static_cast<double>(target.height) / picture.height;
  if (across < down)
    return {std::max(1, std::min(static_cast<int>(std::floor(picture.height * across)), target.height)), target.width};
  return {target.height, std::max(1, std::min(static_cast<int>(std::floor(picture.width * down)), target.width))};
}

// Tiles of a canvas.
class Llama4Processor : public Processor {
 public:
  explicit Llama4Processor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;

 private:
  CommonSettings common_;
  ByteTable table_;
  int tile_ = 336, tokens_ = 144;
  bool to_largest_ = false;
  std::vector<Size> canvases_;
};

Llama4Processor::Llama4Processor(Settings& settings) {
  common_ = settings.common(Filter::bilinear, half, half, Arithmetic::folded);
  table_ = ByteTable(common_);
  tile_ = settings.size("size", {336, 336, {}, {}, {}, {}}, true).height.value_or(336);
  to_largest_ = settings.boolean("resize_to_max_canvas", false);
  canvases_ = canvases(settings.integer("max_patches", 16, 1, 256), tile_);
  int side =
      tile_ / settings.of_processor("patch_size", settings.of_config("vision_config.patch_size", 14, 1, 1024), 1, 1024);
  double shuffle = settings.ratio_of_processor("pixel_shuffle_ratio", 0.5);
  tokens_ = side * side / std::max(rounded(1 / (shuffle * shuffle)), 1);
  placeholder_ = "<|image|>";
  image_token_ = "<|patch|>";
}

Result<PixelBlock> Llama4Processor::process(const Picture& picture) const {
  Size canvas = best_canvas(picture.size(), canvases_, to_largest_), target = canvas;
  if (!to_largest_)
    target = {std::min(std::max(picture.height, tile_), canvas.height),
              std::min(std::max(picture.width, tile_), canvas.width)};
  Picture content = resize(picture, undistorted(picture.size(), target), common_.filter);
  std::vector<Picture> tiles = cut(frame(content, 0, 0, canvas), {tile_, tile_});
  if (tiles.size() > 1) tiles.push_back(resize(picture, {tile_, tile_}, common_.filter));
  PixelBlock block = tile_block(tiles, table_);
  block.original = picture.size();
  block.resized = content.size();
  block.rows = canvas.height / tile_;
  block.columns = canvas.width / tile_;
  return block;
}

Placeholders Llama4Processor::placeholders(const PixelBlock& block) const {
  Placeholders places;
  places.add("<|image_start|>");
  for (int row = 0; row < (block.tiles > 1 ? block.rows : 0); ++row) {
    for (int column = 0; column < block.columns; ++column) {
      places.add_image_tokens(tokens_);
      if (column + 1 < block.columns) places.add("<|tile_x_separator|>");
    }
    places.add("<|tile_y_separator|>");
  }
  places.add("<|image|>");
  places.add_image_tokens(tokens_);
  places.add("<|image_end|>");
  return places;
}

}  // namespace

MadeProcessor make_llama4(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<Llama4Processor>(settings));
}

}  // namespace espalier::pictures
