// rank_parts_task.h: what the ranks of a group have brought together goes where it belongs.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include <cstdint>

#include "kernels/cuda/simt/simt.h"
#include "model/ranks/cut.h"

namespace espalier::device {

// Parts [ranks][rows][part_width] floats, of rows `first_row` and on of `to`. Rank r's go to columns cut[r]; our own are there
// already.
struct SpreadPartsTask {
  const float* parts;
  float* to;
  const Range* cut;  // [ranks], in the device's memory
  std::int64_t part_width, to_stride;
  int ranks, own, first_row, rows;
  // Of a layer's experts, by rank: rank r has those rows of `to` that are places of experts cut[r], whole; else null.
  const int* first_place;  // of each expert, and behind the last
};
void spread_parts(simt::Stream stream, const SpreadPartsTask& task);

}  // namespace espalier::device
