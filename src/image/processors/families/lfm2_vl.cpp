// LFM2-VL: a small picture at a size near its own; a large one in a grid of tiles, and the whole once more at a size near
// its own. Patches in rows of each tile, colours last.
//
// Where two grids of as many tiles are equally near to the picture's ratio, the reference takes the one that Python's set
// yields last; here it is the wider one.
#include <fmt/format.h>

#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

// Tiles of patches, of different sizes.
class Lfm2Processor : public Processor {
 public:
  explicit Lfm2Processor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;

 private:
  Result<Size> near_own_size(Size picture) const;
  bool is_large(Size picture) const;
  int tokens_of(Size patches) const {
    return (patches.height + merge_ - 1) / merge_ * ((patches.width + merge_ - 1) / merge_);
  }

  CommonSettings common_;
  ByteTable table_;
  PatchForm form_;
  int merge_ = 2, tile_ = 512, least_tokens_ = 64, most_tokens_ = 256;
  double tolerance_ = 2;
  bool split_ = true, thumbnail_ = true;
  std::vector<Size> grids_;
  std::string start_, end_, whole_;
};

Lfm2Processor::Lfm2Processor(Settings& settings) {
  common_ = settings.common(Filter::bilinear, half, half, Arithmetic::folded);
  table_ = ByteTable(common_);
  form_ = {.side = settings.integer("encoder_patch_size", 16, 1, 1024), .merge = 1, .colour_last = true};
  merge_ = settings.integer("downsample_factor", 2, 1, 64);
  tile_ = settings.integer("tile_size", 512);
  least_tokens_ = settings.integer("min_image_tokens", 64);
  most_tokens_ = settings.integer("max_image_tokens", 256);
  tolerance_ = settings.number("max_pixels_tolerance", 2);
  int least = settings.integer("min_tiles", 2, 1, 256), most = settings.integer("max_tiles", 10, 1, 256);
  split_ = settings.boolean("do_image_splitting", true) && !(least == 1 && most == 1);
  thumbnail_ = settings.boolean("use_thumbnail", true);
  grids_ = tile_grids(least, std::max(least, most));
  start_ = settings.token("image_start_token", "<|image_start|>");
  end_ = settings.token("image_end_token", "<|image_end|>");
  whole_ = settings.token("image_thumbnail_token", "<|img_thumbnail|>");
  placeholder_ = image_token_ = settings.token("image_token", "<image>");
}

Result<Size> Lfm2Processor::near_own_size(Size picture) const {
  int factor = form_.side * merge_;
  std::int64_t pixels = static_cast<std::int64_t>(factor) * factor, lowest = least_tokens_ * pixels,
               highest = most_tokens_ * pixels;
  std::int64_t height = std::max(1, rounded(static_cast<double>(picture.height) / factor)),
               width = std::max(1, rounded(static_cast<double>(picture.width) / factor));
  double area = static_cast<double>(picture.height) * picture.width;
  if (height * width * pixels > highest) {
    double beta = std::sqrt(area / static_cast<double>(highest));
    height = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(picture.height / beta / factor)));
    width = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(picture.width / beta / factor)));
  } else if (height * width * pixels < lowest) {
    double beta = std::sqrt(static_cast<double>(lowest) / area);
    height = static_cast<std::int64_t>(std::ceil(picture.height * beta / factor));
    width = static_cast<std::int64_t>(std::ceil(picture.width * beta / factor));
  }
  if (height * factor > 1 << 16 || width * factor > 1 << 16) return impossible_size(picture);
  return Size{static_cast<int>(height * factor), static_cast<int>(width * factor)};
}

bool Lfm2Processor::is_large(Size picture) const {
  double factor = form_.side * merge_;
  double height = std::max<double>(form_.side, rounded(picture.height / factor) * factor),
         width = std::max<double>(form_.side, rounded(picture.width / factor) * factor);
  return height * width > most_tokens_ * factor * factor * tolerance_;
}

Result<PixelBlock> Lfm2Processor::process(const Picture& picture) const {
  ESP_TRY(Size own, near_own_size(picture.size()));
  std::vector<Picture> tiles;
  Size grid{1, 1};
  if (split_ && is_large(picture.size())) {
    grid = nearest_grid(picture.size(), grids_, {tile_, tile_});
    tiles = cut(resize(picture, {grid.height * tile_, grid.width * tile_}, common_.filter), {tile_, tile_});
  }
  if (tiles.empty() || (thumbnail_ && tiles.size() > 1)) tiles.push_back(resize(picture, own, common_.filter));
  PixelBlock block = tile_block(tiles, table_, form_, grid);
  block.shape = {block.shape[0], static_cast<std::int64_t>(3) * form_.side * form_.side};
  block.original = picture.size();
  block.resized = own;
  return block;
}

Placeholders Lfm2Processor::placeholders(const PixelBlock& block) const {
  Placeholders places;
  places.add(start_);
  bool several = block.rows > 1 || block.columns > 1;
  for (int i = 0; i < block.tiles; ++i) {
    if (several && i < block.rows * block.columns)
      places.add(fmt::format("<|img_row_{}_col_{}|>", i / block.columns + 1, i % block.columns + 1));
    if (several && i == block.rows * block.columns) places.add(whole_);
    places.add_image_tokens(tokens_of(block.tile_grids[static_cast<std::size_t>(i)]));
  }
  places.add(end_);
  return places;
}

}  // namespace

MadeProcessor make_lfm2_vl(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<Lfm2Processor>(settings));
}

}  // namespace espalier::pictures
