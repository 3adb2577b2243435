// rank_parts_task.h: what a rank of a group has computed of some rows becomes its part, and the parts of all go where they belong.
//
// A part has a row of `width` values for each row, of floats or of bf16; of these a rank fills what it has.
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include <cstdint>

#include "kernels/cuda/simt/simt.h"
#include "model/ranks/cut.h"

namespace espalier::device {

// The first `columns` values of each row of a part, out of rows of floats.
struct PackPartTask {
  const float* from;
  void* part;
  std::int64_t from_stride, width;
  int columns, rows;
  bool halves;  // bf16
};
void pack_part(simt::Stream stream, const PackPartTask& task);

// Parts [ranks][rows][width], of rows `first_row` and on of `to`. Rank r's go to columns cut[r]; our own are there already.
struct SpreadPartsTask {
  const void* parts;
  float* to;
  const Range* cut;  // [ranks], in the device's memory
  std::int64_t width, to_stride;
  int ranks, own, first_row, rows;
  bool halves;
  // Of a layer's experts, by rank: rank r has those rows of `to` that are places of experts cut[r], whole; else null.
  const int* first_place;  // of each expert, and behind the last
};
void spread_parts(simt::Stream stream, const SpreadPartsTask& task);

}  // namespace espalier::device
