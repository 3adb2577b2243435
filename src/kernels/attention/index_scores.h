// index_scores.h: which positions sparse attention reads: scores of a small index key per token, then the best of them.
//
// Each row of the batch has index queries of some heads; each token an index key (a KvLayer of keys only, one KV head).
// A row keeps the `top` highest of the positions that it sees (0 .. its own), the lower position first where scores are
// equal, so all of them where it sees no more than `top`. Scores (kernels/cpu/attention_task.h, IndexTask):
//   weighted    sum over heads of weight * max(scale * q . k, 0): one selection for all heads. DeepSeek-V3.2's and
//   -V4's
//               indexer, GLM-5, HY-V4; what a model multiplies its weights with is the caller's.
//   each_head   scale * q . k, a selection for each index head, which stands for the KV head of its number. MiniMax-M3.
// Positions may be chosen in runs: the score of a run is its highest, `top` counts runs, and a chosen run is kept as
// far as the row sees it; the last `local_runs` runs up to the row's own always come first. Entries may stand only at
// every entry_stride-th position; with a run as long, each of them stands for the positions up to its own, and a row also
// keeps those behind the last entry (Qwen4's). Every score is one chain in float32 over the index key, then over heads, so the
// choice is the same however the work is split (promise 1). Threads: one caller; the team computes. Fails: never.
// Source: transformers' modelling of these models.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace espalier {

// What a model's indexer is.
struct IndexShape {
  int heads, dim;  // dim at most kMaxKeyDim
  float scale = 1.0f;
  bool each_head = false;
  bool exact = false;  // float32 also where keys are bf16 and the processor multiplies those
  int top = 0;
  int run = 1;           // positions chosen together
  int local_runs = 0;    // at most top
  int entry_stride = 1;  // where this is more, run is 1 or as much
  int selections() const { return each_head ? heads : 1; }
  bool operator==(const IndexShape&) const = default;
};

// The chosen positions of every row, as attention takes them.
class SelectedPositions {
 public:
  Selection view() const { return {words_.data(), row_stride_, head_stride_}; }
  void reset(int rows, int selections, std::int64_t positions);  // no bit is set
  void keep_rows(std::span<const int> rows);                     // row i is now what row rows[i] was; ascending
  std::uint64_t* of(int row, int selection) { return words_.data() + row * row_stride_ + selection * head_stride_; }

 private:
  std::vector<std::uint64_t> words_;
  std::int64_t row_stride_ = 0, head_stride_ = 0;
};

// The `top` best of scores[0 .. count - 1], in the order above, as bits of places (bits: [ceil(count / 64)], cleared
// before). NaN counts as the least.
void choose_top(std::span<const float> scores, int top, std::span<std::uint64_t> bits);

// What one layer's indexer reads.
struct IndexRows {
  const float* q;  // [rows of the batch, heads * dim]
  std::int64_t q_stride;
  const float* weights = nullptr;  // [rows of the batch, heads]; null with each_head
  std::int64_t weight_stride = 0;
};

// How a batch's index scores are cut; made once per step and shape.
class IndexPlan {
 public:
  IndexPlan(const IndexShape& shape, std::span<const AttentionSequence> sequences, int threads);
  // Chooses for all rows of the batch.
  void run(const CpuKernels& cpu, ComputeTeam& team, const KvLayer& kv, const IndexRows& rows, SelectedPositions& out);

 private:
  struct Tile {  // some rows of a sequence
    int sequence;
    int first_row, rows;      // in query_rows_
    std::int64_t positions;   // seen by its last row
    std::int64_t scores = 0;  // where they lie in scores_: [row][selection][positions in whole blocks]
  };
  struct Piece {
    int tile, block_begin, block_end;
  };
  struct Pass {  // as many tiles as the memory of scores takes
    int tile_begin, tile_end;
    std::vector<Piece> pieces;
  };
  static int blocks(const Tile& tile);
  void add_passes(int threads);
  IndexTask task_of(const Piece& piece, const KvLayer& kv, const IndexRows& rows);
  void choose(std::span<const float> scores, std::span<std::uint64_t> bits) const;
  void choose_row(const Tile& tile, int row, SelectedPositions& out) const;

  IndexShape shape_;
  std::vector<AttentionSequence> sequences_;
  std::vector<QueryRow> query_rows_;
  std::vector<Tile> tiles_;
  std::vector<Pass> passes_;
  std::vector<float> scores_;
  int rows_ = 0;
  std::int64_t positions_ = 0;
};

}  // namespace espalier
