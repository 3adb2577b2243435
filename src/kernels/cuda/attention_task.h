// attention_task.h: attention of a ragged batch on a device, over the CPU's own layout of keys and values
// (kernels/attention/kv_layout.h), with the CPU's operations in the CPU's order: what a query gets of a block of
// kAttentionBlock positions, and the left fold over blocks (kernels/cpu/attention_task.h).
//
// All pointers are the device's. Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cpu/attention_task.h"
#include "kernels/cuda/simt/simt.h"

namespace espalier::cuda {

// A stretch of a sequence's positions: from `position` on they lie in slots from `slot` on, up to the next stretch.
struct PlacedRun {
  std::int32_t position;
  Slot slot;
};

// A row of the batch, and where its sequence's positions lie: runs[run_begin .. run_end).
struct AttendedRow {
  QueryRow query;
  std::int32_t run_begin, run_end;
};

// All query heads of all rows.
struct AttendTask {
  KvLayer kv;
  HeadDims dims;
  int heads, kv_heads;
  ScoreRule score;
  Selection selection;
  int entry_stride;
  const float* sinks;  // [heads], or null
  const AttendedRow* rows;
  int row_count;
  const PlacedRun* runs;
  const float* q;
  std::int64_t q_stride;
  float* out;
  std::int64_t out_stride;
  FoldStates states;
  bool begin_in_state, end_in_state;
  // The most rows of one sequence that stand together: 1 where all decode; 0: not known. It changes the cut, no bits.
  int sequence_rows;
  // Long contexts are cut: piece p computes about the blocks [p * blocks_each, (p + 1) * blocks_each) of every row,
  // counted from the one of its first position, into partials [row index][block][head][FoldStates::stride_of], which
  // merge_attention() folds. pieces * blocks_each: at least the blocks that any row's first..last touches. pieces 1: no
  // partials.
  int pieces, blocks_each;
  float* partials;
};
void attend(simt::Stream stream, const AttendTask& task);
// Folds the partials of a task with pieces > 1.
struct MergeAttentionTask {
  AttendTask of;
};
void merge_attention(simt::Stream stream, const MergeAttentionTask& task);

// Scores of index keys and the choice of the best (kernels/attention/index_scores.h), as bits of positions.
struct ChoosePositionsTask {
  KvLayer kv;
  int heads, dim;
  float scale;
  bool each_head;
  int top, run, local_runs, entry_stride;
  const AttendedRow* rows;
  int row_count;
  const PlacedRun* runs;
  const float* q;
  std::int64_t q_stride;
  const float* weights;  // null with each_head
  std::int64_t weight_stride;
  float* scores;              // memory: [row index][selection][score_stride]
  std::int64_t score_stride;  // a multiple of kAttentionBlock that holds all positions
  std::uint64_t* words;       // out, all of each row's: Selection's layout
  std::int64_t row_stride, head_stride;
};
void choose_positions(simt::Stream stream, const ChoosePositionsTask& task);

}  // namespace espalier::cuda
