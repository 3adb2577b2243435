// drawn_picture.h: the picture that tests/image/expected_processors.py draws too: noise over a slope; `salt` tells frames apart.
#pragma once

#include <cstdint>

#include "image/picture.h"

namespace espalier::pictures {

inline Picture drawn_picture(int width, int height, std::uint64_t salt = 0) {
  Picture picture(width, height);
  const std::uint64_t pixels = static_cast<std::uint64_t>(width) * static_cast<std::uint64_t>(height);
  for (std::uint64_t n = 0; n < picture.rgb.size(); ++n) {
    const std::uint64_t i = n + salt * 1'000'003, noise = (i * 2'654'435'761ULL % (1ULL << 32)) >> 24;
    picture.rgb[n] = static_cast<std::uint8_t>((noise / 4 + i / 3 * 255 / pixels) % 256);
  }
  return picture;
}

}  // namespace espalier::pictures
