// adapters_task.h: what LoRA adapters add to a product on a device, out += scale (x A^T) B^T, of the rows whose
// sequence has one.
//
// Rows are grouped by adapter in tiles of at most kAdapterRows; every tile is multiplied with its own adapter's
// factors, which are the CPU's panels (kernels/matmul/low_rank.h). shrink() makes x A^T, expand() scales it and adds
// its product with B. K is summed up in pieces of `piece` values, one multiply-add after the other, and the pieces in
// order: one piece of all of K gives the CPU's bits, more of them leave more of the device at work. Neither depends on
// which rows stand beside a row.
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cpu/table.h"
#include "kernels/cuda/batch_rows.h"
#include "kernels/cuda/simt/simt.h"
#include "kernels/row_format.h"
#include "tensor/dtype.h"

namespace espalier::cuda {

inline constexpr int kAdapterRows = 8;  // of a tile
inline constexpr int kAdapterValues =
    256;  // of K that a block of threads keeps at a time; pieces are multiples of it, or all

// Some panels of an adapter: f32, f16 or bf16.
struct FactorPanels {
  const std::uint8_t* panels;  // null: there are none
  std::size_t panel_bytes;
  DType type;
};

// What is added to some columns of a product; as LowRankPart.
struct DeviceLowRankPart {
  FactorPanels up;    // B
  const float* bias;  // [outputs], or null
  std::int64_t first_output, outputs;
  int first, rank;  // its rows of A
  int turn;         // 0: columns as they come; 1, 2: of the first or second panel of each pair
  int first_panel;  // of its panels among those of all parts
};

// One adapter's share of one matrix, in the device's memory; as LowRank.
struct DeviceLowRank {
  FactorPanels down;    // A
  const float* scales;  // [ranks]
  const DeviceLowRankPart* parts;
  int ranks, part_count, panels;  // panels: of all parts
};

// Some rows of a group: rows[first] to rows[first + count - 1].
struct AdapterTile {
  int group, first, count;
};

// The rows of a batch that have adapters.
struct AdaptedBatch {
  const int* rows;  // of all groups, one behind the other
  const AdapterTile* tiles;
  int tile_count, row_count;
};

// Of one product: what each group's adapter adds; null where it leaves the matrix as it is.
struct AdaptedMatrix {
  AdaptedBatch batch;
  const DeviceLowRank* const* factors;  // [groups]
};

// hidden [pieces][row_count][hidden_stride] = x A^T; rows are those of `batch`. x: in a form of kernels/activations.h.
struct ShrinkTask {
  AdaptedMatrix of;
  const void* x;
  std::size_t x_stride;  // bytes
  RowFormat form;
  std::int64_t k, piece;
  float* hidden;
  int hidden_stride, most_ranks;  // most_ranks: of all groups
  int pieces() const { return static_cast<int>((k + piece - 1) / piece); }
};
void shrink(simt::Stream stream, const ShrinkTask& task);

// Adds to out, of all pieces of what shrink() made.
struct ExpandTask {
  AdaptedMatrix of;
  const float* hidden;
  int hidden_stride, pieces, most_panels, most_ranks;
  BatchRows out;
};
void expand(simt::Stream stream, const ExpandTask& task);

// out [rows][outputs] = the gates of sums, activated, times what they gate: as a product joins them (MatmulTask).
// in_turns: gates and what they gate lie in panels of 16 in turns; else one behind the other. bias: [2][outputs], or
// null.
struct JoinGatesTask {
  BatchRows sums, out;
  const float* bias;
  std::int64_t outputs;
  int rows;
  Finish gate;
  bool in_turns;
};
void join_gates(simt::Stream stream, const JoinGatesTask& task);

}  // namespace espalier::cuda
