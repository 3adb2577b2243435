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
  int most_blocks = 0;  // of a row: of its chosen positions; 0: as many as it touches
};
void merge_attention(simt::Stream stream, const MergeAttentionTask& task);

// Rows of one sequence that stand together in a batch.
struct AttendedTile {
  std::int32_t first_row, rows;
};
// How tensor cores take the queries of a KV head: its query heads in `parts` tiles of `heads` each, or fewer in the last one, with
// up to `rows` rows of a sequence.
struct TensorCut {
  int parts, heads, rows;
};
inline constexpr int kFewQueries = 16, kManyQueries = 128, kLatentQueries = 64;  // rows * heads of a tile
constexpr TensorCut tensor_cut(int heads, int kv_heads, int most = kManyQueries) {
  const int group = heads / kv_heads, parts = (group + most - 1) / most, each = (group + parts - 1) / parts;
  return {parts, each, most / each};
}
// Rows that choose positions share none.
constexpr TensorCut tensor_cut(const AttendTask& t) {
  TensorCut cut = tensor_cut(t.heads, t.kv_heads, t.kv.form == KvForm::latent ? kLatentQueries : kManyQueries);
  if (t.selection.words != nullptr) cut.rows = 1;
  return cut;
}
// AttendTask by tensor cores: its rows are cut into tiles, of up to kFewQueries queries and of more. Queries and weights are rounded
// to bf16; what a row gets depends on the row and on what it sees alone, as in attend(), but it has other bits.
struct AttendTensorTask {
  AttendTask of;
  const AttendedTile *few, *many;
  int few_count, many_count;
  int few_queries, many_queries;  // the most of a tile
  int most_shared = 0;            // bytes of shared memory, of latent rows: 0: what the device has. It changes no bits.
};
// What attend_tensor() takes: bf16 keys and values apart, of up to 256 elements, where a row sees all of a range; or latent rows, where
// a row may see a choice of positions, whose blocks are then told by rank: the first 128 that it sees, and so on. No biases by
// distance, no fold that goes on over another layer.
constexpr bool fits_tensor_cores(const AttendTask& t) {
  const bool latent = t.kv.form == KvForm::latent,
             widths = latent ? t.dims.key <= kMaxKeyDim && t.dims.value <= kMaxValueDim
                             : t.dims.key <= 256 && t.dims.value <= 256,
             seen = t.selection.words == nullptr || (latent && t.score.slopes == nullptr);
  return t.kv.type == KvType::bf16 && widths && seen && t.entry_stride <= 1 && t.score.bias.values == nullptr &&
         t.score.scale > 0.0f && !t.begin_in_state && !t.end_in_state;
}
void attend_tensor(simt::Stream stream, const AttendTensorTask& task);

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
