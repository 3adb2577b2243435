// square_frames.h: films for towers that take pictures of one size: each frame is brought to that size and is a tile by itself.
//
// Threads: const calls from any thread. Fails: bad_request: no frames, or frames of different sizes.
#pragma once

#include <span>

#include "image/processors/pixels.h"
#include "image/processors/processor.h"
#include "image/processors/settings.h"

namespace espalier::pictures {

// Frames as tiles; grid.time tells how many.
class SquareFrames {
 public:
  SquareFrames() = default;
  SquareFrames(Settings& films, Size otherwise);
  Result<PixelBlock> block_of(std::span<const Picture> pictures) const;

 private:
  CommonSettings common_;
  ByteTable table_;
  SizeRule size_;
};

}  // namespace espalier::pictures
