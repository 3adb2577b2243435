// Idefics3, SmolVLM: the longer side to a fixed length, both to multiples of a tile, cut into tiles, and the whole once
// more in one tile; each behind its own mark in the text.
#include <fmt/format.h>

#include <algorithm>

#include "image/processors/families.h"
#include "image/processors/frame_choice.h"
#include "image/processors/geometry.h"
#include "image/processors/pixels.h"

namespace espalier::pictures {

namespace {

constexpr int longest_ever = 4096;

// The longer side becomes `longest`; the other keeps the ratio, made even.
Size to_longest(Size picture, int longest) {
  double ratio = static_cast<double>(picture.width) / picture.height;
  Size size;
  if (picture.width >= picture.height) {
    size = {static_cast<int>(longest / ratio), longest};
    size.height += size.height % 2;
  } else {
    size = {longest, static_cast<int>(longest * ratio)};
    size.width += size.width % 2;
  }
  size = {std::max(size.height, 1), std::max(size.width, 1)};
  ratio = static_cast<double>(size.width) / size.height;
  if (size.width >= size.height && size.width > longest_ever)
    size = {static_cast<int>(longest_ever / ratio), longest_ever};
  if (size.height > size.width && size.height > longest_ever)
    size = {longest_ever, static_cast<int>(longest_ever * ratio)};
  return {std::max(size.height, 1), std::max(size.width, 1)};
}

int up_to(int value, int step) {
  return (value + step - 1) / step * step;
}

// Both sides in multiples of a tile.
Size to_tiles(Size picture, int tile) {
  double ratio = static_cast<double>(picture.width) / picture.height;
  if (picture.width >= picture.height) {
    int width = up_to(picture.width, tile);
    return {up_to(static_cast<int>(width / ratio), tile), width};
  }
  int height = up_to(picture.height, tile);
  return {height, up_to(static_cast<int>(height * ratio), tile)};
}

// Tiles and a small whole.
class Idefics3Processor : public Processor {
 public:
  explicit Idefics3Processor(Settings& settings);
  Result<PixelBlock> process(const Picture& picture) const override;
  Placeholders placeholders(const PixelBlock& block) const override;

 private:
  void add_view(Placeholders& places, std::string_view mark) const;

  CommonSettings common_;
  ByteTable table_;
  int tile_ = 364, tokens_ = 169;
  bool split_ = true;
  SizeRule size_;
  std::string mark_, whole_;
};

Idefics3Processor::Idefics3Processor(Settings& settings) {
  common_ = settings.common(Filter::lanczos, half, half);
  table_ = ByteTable(common_);
  size_ = settings.size("size", {{}, {}, {}, 4 * 364, {}, {}}, false);
  tile_ = settings.size("max_image_size", {{}, {}, {}, 364, {}, {}}, false).longest_edge.value_or(364);
  split_ = settings.boolean("do_image_splitting", true);
  int side = settings.of_config("vision_config.image_size", tile_, 1) /
             settings.of_config("vision_config.patch_size", 14, 1) / settings.of_config("scale_factor", 2, 1);
  tokens_ = settings.of_processor("image_seq_len", std::max(side * side, 1));
  mark_ = settings.token("fake_image_token", "<fake_token_around_image>");
  whole_ = settings.token("global_image_token", "<global-img>");
  placeholder_ = image_token_ = settings.token("image_token", "<image>");
}

Result<PixelBlock> Idefics3Processor::process(const Picture& picture) const {
  Picture view = picture;
  if (common_.resize) {
    Size size = size_.longest_edge ? to_longest(view.size(), *size_.longest_edge)
                                   : Size{size_.height.value_or(tile_), size_.width.value_or(tile_)};
    view = resize(view, size, common_.filter);
  }
  std::vector<Picture> tiles;
  int rows = 0, columns = 0;
  if (split_) view = resize(view, to_tiles(view.size(), tile_), common_.filter);
  if (split_ && (view.height > tile_ || view.width > tile_)) {
    tiles = cut(view, {tile_, tile_});
    rows = view.height / tile_;
    columns = view.width / tile_;
  }
  tiles.push_back(resize(view, {tile_, tile_}, common_.filter));
  PixelBlock block = tile_block(tiles, table_);
  block.original = picture.size();
  block.resized = view.size();
  block.rows = rows;
  block.columns = columns;
  return block;
}

void Idefics3Processor::add_view(Placeholders& places, std::string_view mark) const {
  places.add(mark_);
  places.add(mark);
  places.add_image_tokens(tokens_);
}

Placeholders Idefics3Processor::placeholders(const PixelBlock& block) const {
  Placeholders places;
  for (int row = 1; row <= block.rows; ++row) {
    for (int column = 1; column <= block.columns; ++column)
      add_view(places, fmt::format("<row_{}_col_{}>", row, column));
    places.add("\n");
  }
  if (block.rows > 0) places.add("\n");
  add_view(places, whole_);
  places.add(mark_);
  return places;
}

}  // namespace

MadeProcessor make_idefics3(Settings& settings) {
  return std::unique_ptr<Processor>(std::make_unique<Idefics3Processor>(settings));
}

}  // namespace espalier::pictures
