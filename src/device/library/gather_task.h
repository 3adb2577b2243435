// gather_task.h: rows made of other rows: those that are kept, or groups of them side by side, or their weighted sum.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include <cstdint>

#include "kernels/cuda/simt/simt.h"

namespace espalier::device {

// to[i] = rows map[i * count .. ] of `from` one behind the other, -1: zeros; or their sum, with weights or divided by count.
// `to` is other memory.
struct GatherTask {
  const float* from;
  std::int64_t from_stride;
  float* to;
  std::int64_t to_stride;
  std::int64_t width;       // of a row of `from`
  const std::int32_t* map;  // [rows][count]; null: row i
  const float* weights;     // [rows][count], or null
  int rows, count;
  bool sum;  // weights null: the mean
  bool add;  // to what `to` has, of sums with weights
};
void gather(simt::Stream stream, const GatherTask& task);

}  // namespace espalier::device
