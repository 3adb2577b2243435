// attention_task.h: what attention kernels are asked for: a tile of queries against a range of position blocks.
//
// Units: positions are absolute in a sequence; a block is kAttentionBlock positions from a multiple of it. Memory: what
// the pointers name outlives the call. Threads: any; a kernel touches only what its task names. Fails: never.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/kv_layout.h"

namespace espalier {

inline constexpr int kAttentionBlock = 128;
inline constexpr int kTileQueries = 32;
inline constexpr int kMaxKeyDim = 576;  // 512 + 64: DeepSeek's latent rows
inline constexpr int kMaxValueDim = 512;
inline constexpr int kMaxHeadDim = 512;  // of both, where a model has one width

// One row of the batch: it sees the positions first..last of its sequence (those that Selection leaves of them).
struct QueryRow {
  std::int32_t row;       // of q and out
  std::int32_t position;  // in its sequence
  std::int32_t first, last;
};

// Where a query's fold over blocks stands: [row][head][weighted values (value_dim rounded up to 16), maximum, sum];
// scores and their maximum are exponents of 2. A query that has seen nothing has maximum -inf.
struct FoldStates {
  float* memory = nullptr;
  int heads = 0, stride = 0;  // heads of a row; floats of one state
  constexpr float* of(int row, int head) const {
    return memory + (static_cast<std::int64_t>(row) * heads + head) * stride;
  }
  static constexpr int stride_of(int value_dim) { return padded_head(value_dim) + 2; }
};

// Which positions may be seen, as bits: position p of a row is bit p % 64 of its word p / 64. Every query head that
// shares a KV head sees alike. Positions outside of first..last are hidden whatever their bit; a row's words reach to
// its `last`. Null words: all may be seen.
struct Selection {
  const std::uint64_t* words = nullptr;
  std::int64_t row_stride = 0;   // words from one row of the batch to the next
  std::int64_t head_stride = 0;  // from one KV head to the next; 0: all see alike
  constexpr const std::uint64_t* of(int row, int kv_head) const {
    return words + row * row_stride + kv_head * head_stride;
  }
};

// Which positions of a KV head a tile reads: blocks of kAttentionBlock tokens, none from position_end on.
struct AttentionSpan {
  const KvRun* runs;  // extents that cover positions 0.., in order; null: it reads nothing
  int kv_head;
  int block_begin, block_end;
  std::int64_t position_end;
};

// What is added to scores by how far the key's position lies behind the query's: values[query head][distance + reach].
// Distances from reach on are alike, and so are those up to -reach + 15: rows of the table reach from -reach to reach + 15.
struct DistanceBias {
  const float* values = nullptr;  // [query heads][2 * reach + 16], or null
  int reach = 0;
  constexpr int width() const { return 2 * reach + 16; }
  bool operator==(const DistanceBias&) const = default;
};

// What becomes of a product of query and key before the softmax: times `scale`, then cap * tanh(score / cap) where cap
// is not 0, then slopes[query head] * (key's position - query's position) added where there are slopes (ALiBi), and a
// bias by distance where there is a table of them.
struct ScoreRule {
  float scale;
  float cap = 0.0f;
  const float* slopes = nullptr;
  DistanceBias bias = {};
};

// The queries of one tile (some rows x some query heads of one KV head) against a range of position blocks. The rows
// may belong to several sequences whose positions in these blocks lie in the same slots. What a query gets from a block
// is a function of the query, what it sees and the block alone: the block's maximum score, sum of exponentials and
// weighted values; these merge by a left fold over blocks, however the work is split. Blocks of which a query sees
// nothing are not folded. A sink is a logit of a query head that joins the denominator, once, when the fold ends in
// `out`; a query that sees nothing gets zeros.
struct AttentionTask {
  KvLayer kv;             // keys and values of one layer
  AttentionSpan span;     // of them
  AttentionSpan then;     // where whoever computes this probably goes on: called in from memory meanwhile
  int head_begin, heads;  // query heads of this tile; all share the KV head
  HeadDims dims;          // at most kMaxKeyDim, kMaxValueDim
  const QueryRow* rows;   // row_count * heads <= kTileQueries
  int row_count;
  const float* q;         // [rows of the batch, all heads * dims.key]
  std::int64_t q_stride;  // floats from row to row
  ScoreRule score;
  Selection selection;
  int entry_stride;    // only the last of so many positions holds an entry: p % entry_stride == entry_stride - 1
  const float* sinks;  // [all heads], or null
  float* out;          // [rows of the batch, all heads * dims.value]
  std::int64_t out_stride;
  float* partials;  // if not null, only this: [block - block_begin][row][head][weighted values, maximum, sum]
  FoldStates states;
  bool begin_in_state, end_in_state;  // the fold goes on from its state; it is kept there instead of finishing into out
};

// Folds the partials of all blocks of one tile, in order.
struct AttentionMerge {
  const float* partials;
  int blocks;
  const QueryRow* rows;
  int row_count, head_begin, heads, value_dim;
  const float* sinks;
  float* out;
  std::int64_t out_stride;
  FoldStates states;
  bool begin_in_state, end_in_state;
};

// Index scores of some rows against a range of blocks; kv has keys only. With d[h] = scale * (q[h] . k[p]):
//   weights given:  scores[row][p - p0] = sum over h, ascending, of weights[row][h] * max(d[h], 0)
//   weights null:   scores[row * heads + h][p - p0] = d[h]
// for all positions p of the span; p0 is the first of block_begin, row counts within the tile. What a row does not see
// is computed all the same, or left.
struct IndexTask {
  KvLayer kv;
  AttentionSpan span, then;
  int heads, dim;        // dim at most kMaxKeyDim
  const QueryRow* rows;  // any number
  int row_count;
  const float* q;  // [rows of the batch, heads * dim]
  std::int64_t q_stride;
  const float* weights;  // [rows of the batch, heads], or null
  std::int64_t weight_stride;
  float scale;
  float* scores;
  std::int64_t score_stride;  // floats from one row of scores to the next
};

}  // namespace espalier
