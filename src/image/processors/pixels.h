// pixels.h: bytes of pictures -> floats, in the layouts that towers read.
//
// A byte's float depends on nothing but the byte and its colour, so it is looked up.
// Threads: const calls from any thread. Fails: never; sizes fit as the comments say.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "image/picture.h"
#include "image/processors/processor.h"
#include "image/processors/settings.h"

namespace espalier::pictures {

// Floats for the 256 values of each colour.
class ByteTable {
 public:
  ByteTable() = default;
  explicit ByteTable(const CommonSettings& settings);
  float operator()(std::size_t colour, std::uint8_t byte) const { return values_[colour][byte]; }

 private:
  std::array<std::array<float, 256>, 3> values_{};
};

// How patches are cut and written. Patches follow one another in rows of the grid, or, with merge > 1, in rows of
// squares of merge × merge patches that become one token. Within a patch: colour, picture, row, column; or with
// colour_last row, column, colour (and one picture).
struct PatchForm {
  int side = 14;
  int merge = 1;
  bool colour_last = false;
};

// [3, height, width], appended.
void append_planes(const Picture& picture, const ByteTable& table, std::vector<float>& to);

// [patches, ...], appended. `pictures`, of one size that is a multiple of side × merge: those that one patch spans in time.
void append_patches(std::span<const Picture* const> pictures, const ByteTable& table, const PatchForm& form,
                    std::vector<float>& to);
inline void append_patches(const Picture& picture, const ByteTable& table, const PatchForm& form,
                           std::vector<float>& to) {
  const Picture* one = &picture;
  append_patches(std::span(&one, 1), table, form, to);
}

// Tiles of several sizes, one behind the other, as patches in the grid of each: shape [patches, 3, side, side]. `grid`: of
// tiles, those of a whole view aside.
PixelBlock tile_block(std::span<const Picture> tiles, const ByteTable& table, const PatchForm& form, Size grid);

}  // namespace espalier::pictures
