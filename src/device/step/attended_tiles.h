// attended_tiles.h: how the rows of a batch become tiles of attention by tensor cores.
//
// Threads: any. Fails: never.
#pragma once

#include <span>
#include <vector>

#include "kernels/cuda/attention/attention_task.h"

namespace espalier::device {

// Tiles of a batch, and the most queries of one of them.
struct AttendedTiles {
  std::vector<cuda::AttendedTile> few, many;
  int few_queries = 0, many_queries = 0;
};
// rows: of each sequence; sequences stand one behind the other. Tiles of many queries begin with a sequence's last rows, which see
// most.
AttendedTiles tiles_of(std::span<const int> rows, const cuda::TensorCut& cut);

}  // namespace espalier::device
