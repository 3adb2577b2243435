// A few sizes with every filter, against sums of what Pillow 13 makes of the same picture; tests/image/pillow_test.py tries many.
#include "image/resize/resize.h"

#include <gtest/gtest.h>

#include "base/json/json.h"
#include "base/sha256.h"
#include "testing/data.h"

namespace espalier::pictures::resize_test {

namespace {

Picture drawn(int width, int height) {
  Picture picture(width, height);
  for (std::uint64_t i = 0; i < picture.rgb.size(); ++i)
    picture.rgb[i] = static_cast<std::uint8_t>((i * 2'654'435'761ULL % (1ULL << 32)) >> 24);
  return picture;
}

TEST(Resize, EqualsPillowWithEveryFilter) {
  Json vectors = *parse_json(espalier::testing::read_file(espalier::testing::data("pictures/resized.json")));
  ASSERT_GT(vectors.size(), 40U);
  for (const Json& wanted : vectors) {
    std::optional<Box> box;
    if (wanted.contains("box")) box = Box{wanted["box"][0], wanted["box"][1], wanted["box"][2], wanted["box"][3]};
    Picture resized = resize(drawn(wanted["from"][0], wanted["from"][1]), {wanted["to"][1], wanted["to"][0]},
                             static_cast<Filter>(wanted["filter"].get<int>()), box);
    EXPECT_EQ(espalier::Sha256::hex(std::as_bytes(std::span(resized.rgb))).substr(0, 16), wanted["sha256"]) << wanted;
  }
}

TEST(Resize, LeavesAPictureOfThatSizeAsItIs) {
  Picture picture = drawn(9, 7);
  for (int filter = 0; filter < 6; ++filter) EXPECT_EQ(resize(picture, {7, 9}, static_cast<Filter>(filter)), picture);
}

}  // namespace

}  // namespace espalier::pictures::resize_test
