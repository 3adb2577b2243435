// geometry.h: sizes that processors bring pictures to. Arithmetic is that of the reference: doubles, truncation where it
// truncates, rounding half to even where it rounds.
//
// Units:   pixels. Threads: pure functions.
// Fails:   bad_request: a picture whose sides differ too much for the rule, or that a rule would bring to nothing.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "espalier/error.h"
#include "image/picture.h"
#include "image/processors/settings.h"

namespace espalier::pictures {

inline int rounded(double value) {
  return static_cast<int>(std::nearbyint(value));
}

// As a general "size" says: both sides fixed; the shorter (and at most the longer) edge; as large as bounds allow.
Result<Size> size_by_rule(Size picture, const SizeRule& rule);

// Bounds of an area in pixels, and what counts towards it: pictures in time, rounded to multiples of `together`.
struct PixelBudget {
  std::int64_t lowest = 1, highest = 1;
  int frames = 1, together = 1;
};

// Multiples of `factor` nearest to the sides, their area brought into the budget.
Result<Size> size_in_budget(Size picture, int factor, const PixelBudget& budget);

// As large as fits into `target` without distortion, rounded up.
Size size_within(Size picture, Size target);

// The one of `offered` in which the picture, shrunk to fit, keeps most pixels, and of those the one that wastes fewest.
Size best_resolution(Size picture, std::span<const Size> offered);

// Sides in tiles, width times height between lowest and highest, by their product and then their width.
std::vector<Size> tile_grids(int lowest, int highest);

// The grid whose ratio is nearest to the picture's; of equals a later (larger) one if the picture has more than half of
// its pixels.
Size nearest_grid(Size picture, std::span<const Size> grids, Size tile);

// `picture` in a square of its longer side, in the middle.
Picture squared(const Picture& picture, std::array<std::uint8_t, 3> colour);

// Cuts from left to right, then down; the picture's sides are multiples of the tile's.
std::vector<Picture> cut(const Picture& picture, Size tile);

// A block of tiles of one size.
PixelBlock tile_block(std::span<const Picture> tiles, const class ByteTable& table);

Error impossible_size(Size picture);

}  // namespace espalier::pictures
