// resize.h: a picture in another size, bit for bit as Pillow's Image.resize makes it of 8-bit RGB.
//
// Filters are widened when a picture gets smaller (antialiasing), except `nearest`. Weights are doubles, rounded to 22
// binary places; sums are 32-bit integers; along the rows and then the columns, or the other way (resize.cpp), rounded to bytes.
// Units:   pixels. Threads: pure functions. Fails: never; sizes are positive and the box lies within the picture.
// Source:  the separable convolution of Pillow 13's Image.resize; filters with a = -0.5 (bicubic) and 3 lobes (Lanczos).
#pragma once

#include <optional>

#include "image/picture.h"

namespace espalier::pictures {

// The numbers are Pillow's, as "resample" in preprocessor_config.json has them.
enum class Filter : int { nearest = 0, lanczos = 1, bilinear = 2, bicubic = 3, box = 4, hamming = 5 };

// The part of a picture that is resized: edges in pixels, fractions allowed.
struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;
};

Picture resize(const Picture& picture, Size size, Filter filter, std::optional<Box> box = std::nullopt);

}  // namespace espalier::pictures
