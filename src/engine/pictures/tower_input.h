// tower_input.h: pixels as a processor made them -> pictures as a tower takes them.
//
// Threads: pure functions. Fails: unsupported for pixels of a form that no tower here takes; bad_request for shapes that
// contradict themselves.
#pragma once

#include <vector>

#include "espalier/error.h"
#include "image/processors/processor.h"
#include "model/tower_spec.h"

namespace espalier {

// Pictures that point into the block. `rows`: that its image tokens want. Tiles are one picture where the tower joins them, else
// each is a picture by itself.
Result<std::vector<TowerPicture>> tower_input(const pictures::PixelBlock& block, const TowerSpec& tower, int rows);

// Rows of a picture: those that come out, and the most that are computed at a time.
struct TowerRows {
  int given = 0, computed = 0;
};
TowerRows tower_rows(const TowerPicture& picture, const TowerSpec& tower);

}  // namespace espalier
