// LLaVA-NeXT and LLaVA-OneVision: the whole picture in one tile, then the picture at the best of some resolutions, in the
// middle of it, cut into tiles. A tile's rows of features without the black edges get a line break's feature each.
#include <algorithm>

#include "image/processors/families/families.h"
#include "image/processors/frame_choice.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"
#include "image/processors/square_frames.h"

namespace espalier::pictures {

namespace {

// Python's a // b of floats.
double floor_division(double a, double b) {
  double remainder = std::fmod(a, b), quotient = (a - remainder) / b, whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

int cut_to_integer(double value) {
  return static_cast<int>(std::nearbyint(value * 1e7) / 1e7);
}

// How many features the tiles leave: a grid that covers the picture's part of them, and one more for each of its rows.
int features_of_tiles(Size picture, Size grid, int most_tiles, int tile_side) {
  double ratio = static_cast<double>(picture.width) / picture.height,
         grid_ratio = static_cast<double>(grid.width) / grid.height;
  if (ratio > grid_ratio) {
    int height = cut_to_integer(picture.height * (static_cast<double>(grid.width) / picture.width));
    grid.height -= (grid.height - height) / 2 * 2;
  } else {
    int width = cut_to_integer(picture.width * (static_cast<double>(grid.height) / picture.height));
    grid.width -= (grid.width - width) / 2 * 2;
  }
  if (most_tiles > 0) {
    double shrink = std::sqrt(static_cast<double>(grid.height) * grid.width /
                              (static_cast<double>(most_tiles) * tile_side * tile_side));
    if (shrink > 1.1)
      grid = {static_cast<int>(floor_division(grid.height, shrink)),
              static_cast<int>(floor_division(grid.width, shrink))};
  }
  return grid.height * grid.width + grid.height;
}

// Tiles for one of several resolutions.
class AnyResolutionProcessor : public Processor {
 public:
  AnyResolutionProcessor(Settings& settings, bool onevision);

  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;
  Result<std::vector<int>> choose_frames(int frames, double per_second) const override;
  Result<PixelBlock> plan_film(Size frame, int frames, const FilmTimes& times) const override;
  Result<Placeholders> film_placeholders(const PixelBlock& block, const FilmTimes& times) const override;

 protected:
  Result<> append_frames(PixelBlock& block, int frames, const NextFrame& next) const override {
    return films_.append(block, frames, next);
  }

 private:
  Result<Picture> ready(const Picture& tile) const;

  bool onevision_;
  CommonSettings common_;
  ByteTable table_;
  SquareFrames films_;
  FrameRule choose_;
  SizeRule size_, crop_;
  bool center_crop_ = false;
  Size whole_;
  int tile_ = 336, patch_ = 14, extra_ = 0, most_tiles_ = 0;
  std::vector<Size> resolutions_;
};

std::vector<Size> onevision_resolutions() {
  std::vector<Size> all;
  for (int height = 384; height <= 2304; height += 384) {
    for (int width = 384; width <= 2304; width += 384) all.push_back({height, width});
  }
  return all;
}

AnyResolutionProcessor::AnyResolutionProcessor(Settings& settings, bool onevision) : onevision_(onevision) {
  common_ = settings.common(Filter::bicubic, clip_mean, clip_std);
  table_ = ByteTable(common_);
  size_ =
      settings.size("size", onevision ? SizeRule{384, 384, {}, {}, {}, {}} : SizeRule{{}, {}, 224, {}, {}, {}}, false);
  crop_ = settings.size("crop_size", onevision ? SizeRule{} : SizeRule{224, 224, {}, {}, {}, {}}, true);
  center_crop_ = settings.boolean("do_center_crop", !onevision);
  int side = size_.shortest_edge.value_or(224);
  whole_ = size_.height && size_.width ? Size{*size_.height, *size_.width} : Size{side, side};
  tile_ = crop_.height ? *crop_.height : whole_.height;
  resolutions_ =
      settings.sizes("image_grid_pinpoints",
                     onevision ? onevision_resolutions()
                               : std::vector<Size>{{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}});
  patch_ = settings.of_processor("patch_size", settings.of_config("vision_config.patch_size", 14, 1), 1, 1024);
  if (onevision) {
    std::string ratio = settings.text_of_config("vision_aspect_ratio", "anyres_max_9");
    std::size_t digits = ratio.find_first_of("123456789");
    most_tiles_ = digits == std::string::npos ? 9 : std::min(std::atoi(ratio.c_str() + digits), 10'000);
  }
  extra_ = extra_tokens(settings);
  Settings films = settings.video();
  films_ = SquareFrames(films, {384, 384});
  choose_ = plain_frame_rule(films, {});
  placeholder_ = image_token_ = settings.token("image_token", "<image>");
  if (onevision) film_placeholder_ = film_token_ = settings.token("video_token", "<video>");
}

Result<Picture> AnyResolutionProcessor::ready(const Picture& tile) const {
  Picture view = tile;
  if (common_.resize) {
    ESP_TRY(Size size, size_by_rule(tile.size(), size_));
    view = resize(tile, size, common_.filter);
  }
  return center_crop_ && crop_.height && crop_.width ? center_crop(view, {*crop_.height, *crop_.width}) : view;
}

Result<PixelBlock> AnyResolutionProcessor::process(const Picture& picture) const {
  Size best = best_resolution(picture.size(), resolutions_);
  Size content = size_within(picture.size(), best);
  if (content.height < 1 || content.width < 1 || best.height % tile_ != 0 || best.width % tile_ != 0) {
    return bad_file("the picture processor's image_grid_pinpoints must be multiples of its tiles",
                    "image_grid_pinpoints");
  }
  Picture canvas = frame(resize(picture, content, common_.filter), (best.width - content.width) / 2,
                         (best.height - content.height) / 2, best);
  std::vector<Picture> tiles = cut(canvas, {tile_, tile_});
  tiles.insert(tiles.begin(), resize(picture, whole_, common_.filter));
  for (Picture& tile : tiles) {
    ESP_TRY(tile, ready(tile));
    if (tile.size() != tiles[0].size())
      return bad_file("the picture processor's size and crop_size give tiles of different sizes", "size");
  }
  PixelBlock block = tile_block(tiles, table_);
  block.original = picture.size();
  block.resized = best;
  block.rows = best.height / tile_;
  block.columns = best.width / tile_;
  return block;
}

Placeholders AnyResolutionProcessor::placeholders(const PixelBlock& block) const {
  auto height = static_cast<int>(block.shape[2]), width = static_cast<int>(block.shape[3]);
  int down = height / patch_, across = width / patch_;
  Size grid{down * (block.resized.height / height), across * (block.resized.width / width)};
  Placeholders places;
  places.add_image_tokens(features_of_tiles(block.original, grid, most_tiles_, down) + down * across + extra_);
  return places;
}

Result<std::vector<int>> AnyResolutionProcessor::choose_frames(int frames, double per_second) const {
  if (!onevision_) return Processor::choose_frames(frames, per_second);
  return choose_(frames, per_second);
}

Result<PixelBlock> AnyResolutionProcessor::plan_film(Size frame, int frames, const FilmTimes& times) const {
  if (!onevision_) return Processor::plan_film(frame, frames, times);
  return films_.plan(frame, frames);
}

Result<Placeholders> AnyResolutionProcessor::film_placeholders(const PixelBlock& block, const FilmTimes& times) const {
  if (!onevision_) return Processor::film_placeholders(block, times);
  int side = (static_cast<int>(block.shape[2]) / patch_ + 1) / 2;
  Placeholders places;
  places.add_image_tokens(block.tiles * side * side + 1);
  return places;
}

}  // namespace

MadeProcessor make_llava_next(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<AnyResolutionProcessor>(settings, false));
}

MadeProcessor make_llava_onevision(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<AnyResolutionProcessor>(settings, true));
}

}  // namespace espalier::pictures
