// experts_task.h: rows on their way through the experts that were chosen for them.
//
// A place is a row with one of its experts; places are sorted by expert, then by row. How many there are only the device knows:
// kernels are launched for the most, and those behind the last do nothing.
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cuda/products/multiply_task.h"

namespace espalier::cuda {

// The places of some rows, in the device's memory. Experts from `count` on have none.
struct ExpertPlaces {
  int rows, chosen, count;
  int* begin;     // [count + 1]: the first place of each expert
  int* row_of;    // [rows * chosen], by place
  int* place_of;  // [rows * chosen], by row and choice; -1: none
  int most() const { return rows * chosen; }
};

// routed: [rows][ids ascending | weights], what RouteOp gives.
struct GroupByExpertTask {
  const float* routed;
  std::int64_t routed_stride;
  ExpertPlaces places;
};
void group_by_expert(simt::Stream stream, const GroupByExpertTask& task);

// to[place] = from[row of place]; with weights floats, multiplied by the choice's weight.
struct GatherRowsTask {
  const std::byte* from;
  std::byte* to;
  std::size_t from_stride, to_stride, bytes;  // bytes: a multiple of 4
  const float* routed;                        // null: without weights
  std::int64_t routed_stride;
  ExpertPlaces places;
};
void gather_rows(simt::Stream stream, const GatherRowsTask& task);

// Of each expert its places, rows of `of.x` and `of.out`, times its weights. All have one shape and type.
struct MultiplyExpertsTask {
  MatmulTask of;  // without panels and bias
  DType type;
  RowFormat rows_as;
  const std::uint8_t* const* panels;  // [count], in the device's memory
  const float* const* biases;         // [count], or null
  ExpertPlaces places;
};
void multiply_experts(simt::Stream stream, const MultiplyExpertsTask& task);

// out = sum over a row's choices, in order, of weight * from[place]; a choice without place gives the row's input.
struct CombineExpertsTask {
  const float *from, *in, *routed;
  float* out;
  std::int64_t from_stride, in_stride, routed_stride, out_stride, width;
  bool weighted;  // false: weights count as 1
  bool add;       // to what `out` holds
  ExpertPlaces places;
};
void combine_experts(simt::Stream stream, const CombineExpertsTask& task);

}  // namespace espalier::cuda
