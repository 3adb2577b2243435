#include "device/step/attended_tiles.h"

#include <algorithm>

namespace espalier::device {

AttendedTiles tiles_of(std::span<const int> rows, const cuda::TensorCut& cut) {
  AttendedTiles out;
  int first = 0;
  for (const int count : rows) {
    for (int at = 0; at < count; at += cut.rows) {
      const cuda::AttendedTile tile{first + at, std::min(cut.rows, count - at)};
      const int queries = tile.rows * cut.heads;
      const bool is_few = queries <= cuda::kFewQueries;
      (is_few ? out.few : out.many).push_back(tile);
      int& most = is_few ? out.few_queries : out.many_queries;
      most = std::max(most, queries);
    }
    first += count;
  }
  std::ranges::reverse(out.many);
  return out;
}

}  // namespace espalier::device
