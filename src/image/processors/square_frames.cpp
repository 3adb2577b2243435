#include "image/processors/square_frames.h"

#include "image/processors/geometry.h"

namespace espalier::pictures {

SquareFrames::SquareFrames(Settings& films, Size otherwise)
    : common_(films.common(Filter::bicubic, clip_mean, clip_std, Arithmetic::folded)),
      table_(common_),
      size_(films.size("size", {otherwise.height, otherwise.width, {}, {}, {}, {}}, true)) {}

Result<PixelBlock> SquareFrames::block_of(std::span<const Picture> pictures) const {
  if (pictures.empty()) return bad_request("a film needs at least one frame");
  Size size = pictures[0].size();
  if (common_.resize) {
    ESP_TRY(size, size_by_rule(size, size_));
  }
  std::vector<Picture> frames;
  for (const Picture& picture : pictures) {
    if (picture.size() != pictures[0].size()) return bad_request("the frames of a film must all have one size");
    frames.push_back(resize(picture, size, common_.filter));
  }
  PixelBlock block = tile_block(frames, table_);
  block.original = pictures[0].size();
  block.resized = size;
  block.grid.time = block.tiles;
  return block;
}

}  // namespace espalier::pictures
