#include "image/picture.h"

#include <algorithm>
#include <cstring>

namespace espalier::pictures {

namespace {

void copy_block(const Picture& from, int from_left, int from_top, Picture& to, int left, int top, Size size) {
  for (int y = 0; y < size.height; ++y) {
    std::memcpy(to.row(top + y) + static_cast<std::ptrdiff_t>(left) * 3,
                from.row(from_top + y) + static_cast<std::ptrdiff_t>(from_left) * 3,
                static_cast<std::size_t>(size.width) * 3);
  }
}

// Where the middle of `have` goes in a span of `want`, and where it begins in the original: one of both is 0.
struct Middle {
  int into = 0, from = 0, count = 0;
};

Middle middle(int have, int want) {
  if (have >= want) return {0, (have - want) / 2, want};
  return {(want - have + 1) / 2, 0, have};
}

}  // namespace

void fill(Picture& picture, std::array<std::uint8_t, 3> colour) {
  std::size_t size = picture.rgb.size(), done = std::min<std::size_t>(size, 3);
  std::copy_n(colour.begin(), done, picture.rgb.data());
  for (; done < size; done = std::min(size, 2 * done))
    std::memcpy(picture.rgb.data() + done, picture.rgb.data(), std::min(done, size - done));
}

Picture crop(const Picture& picture, int left, int top, Size size) {
  Picture part(size.width, size.height);
  copy_block(picture, left, top, part, 0, 0, size);
  return part;
}

Picture frame(const Picture& picture, int left, int top, Size size, std::array<std::uint8_t, 3> colour) {
  Picture whole(size.width, size.height);
  fill(whole, colour);
  copy_block(picture, 0, 0, whole, left, top, picture.size());
  return whole;
}

Picture center_crop(const Picture& picture, Size size) {
  Middle y = middle(picture.height, size.height), x = middle(picture.width, size.width);
  Picture part(size.width, size.height);
  fill(part, {0, 0, 0});
  copy_block(picture, x.from, y.from, part, x.into, y.into, {y.count, x.count});
  return part;
}

}  // namespace espalier::pictures
