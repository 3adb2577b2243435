#include "image/processors/square_frames.h"

#include "image/processors/geometry.h"

namespace espalier::pictures {

SquareFrames::SquareFrames(Settings& films, Size otherwise)
    : common_(films.common(Filter::bicubic, clip_mean, clip_std, Arithmetic::folded)),
      table_(common_),
      size_(films.size("size", {otherwise.height, otherwise.width, {}, {}, {}, {}}, true)) {}

Result<PixelBlock> SquareFrames::plan(Size frame, int frames) const {
  Size size = frame;
  if (common_.resize) {
    ESP_TRY(size, size_by_rule(frame, size_));
  }
  return frame_block(frame, size, frames);
}

Result<> SquareFrames::append(PixelBlock& block, int frames, const NextFrame& next) const {
  for (int i = 0; i < frames; ++i) {
    ESP_TRY(const Picture picture, next());
    append_planes(resize(picture, block.resized, common_.filter), table_, block.values);
  }
  return success();
}

PixelBlock frame_block(Size original, Size resized, int frames) {
  PixelBlock block;
  block.original = original;
  block.resized = resized;
  block.tiles = block.grid.time = frames;
  block.shape = {frames, 3, resized.height, resized.width};
  return block;
}

}  // namespace espalier::pictures
