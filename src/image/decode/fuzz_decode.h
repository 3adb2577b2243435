// fuzz_decode.h: what holds for every decoder, whatever bytes it is given; for the fuzz targets.
// Threads: pure function. Fails: aborts.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>

#include "image/decode/decode.h"

namespace espalier::pictures {

inline void fuzz_require(bool condition) {
  if (!condition) std::abort();
}

inline void fuzz_decode(PictureFormat format, std::span<const std::uint8_t> data) {
  std::span<const std::byte> file = std::as_bytes(data);
  if (picture_format(file) != format) return;  // other targets have those
  DecodeLimits limits;
  limits.pixels = 200'000;
  limits.frame_pixels = 800'000;
  limits.frames = 20;
  DecodeWork work;
  auto picture = decode_picture(file, limits, &work);
  if (picture.ok()) {
    fuzz_require(picture->rgb.size() ==
                 static_cast<std::size_t>(picture->width) * static_cast<std::size_t>(picture->height) * 3);
    fuzz_require(picture->rgb.size() / 3 <= 200'000);
  } else {
    fuzz_require(!picture.error().message.empty());
  }
  auto frames = decode_frames(file, limits);
  if (frames.ok()) fuzz_require(!frames->empty() && frames->size() <= 20);
  if (frames.ok() && picture.ok()) fuzz_require((*frames)[0].picture == *picture);
}

}  // namespace espalier::pictures
