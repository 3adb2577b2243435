// square_frames.h: films for towers that take pictures of one size: each frame is brought to that size and is a tile by itself.
//
// Threads: const calls from any thread. Fails: bad_request: a size that cannot be brought to the tower's.
#pragma once

#include "image/processors/pixels.h"
#include "image/processors/processor.h"
#include "image/processors/settings.h"

namespace espalier::pictures {

// Frames as tiles; grid.time tells how many.
class SquareFrames {
 public:
  SquareFrames() = default;
  SquareFrames(Settings& films, Size otherwise);
  Result<PixelBlock> plan(Size frame, int frames) const;
  Result<> append(PixelBlock& block, int frames, const NextFrame& next) const;

 private:
  CommonSettings common_;
  ByteTable table_;
  SizeRule size_;
};

// Frames as tiles of one size, without their values.
PixelBlock frame_block(Size original, Size resized, int frames);

}  // namespace espalier::pictures
