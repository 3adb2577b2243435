// attention.h: attention of one ragged batch (decoding sequences and prompt chunks together) over extents of the token
// pool.
//
// The work is cut into tiles: some rows of one sequence x the query heads of one KV head. Few long tiles are cut again
// over blocks of positions; their partial results are folded in block order, so the bits do not depend on the cut
// (promise 1). A plan depends on the batch and the window alone and is made once per step, not per layer. Threads: one
// caller; the team computes. Fails: never.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/compute_team.h"
#include "kernels/cpu/table.h"

namespace espalier {

struct AttentionShape {
  int heads, kv_heads, head_dim;
  std::int64_t window = 0;  // positions a query sees, itself included; 0 = all
  float scale = 0.0f;
  int group() const { return heads / kv_heads; }
};

// One sequence's part of the batch. Keys and values of all its positions, those of these rows included, are stored.
struct AttentionSequence {
  int row_begin, rows;          // rows of q and out
  std::int64_t first_position;  // of row_begin
  std::span<const KvRun> runs;  // cover positions 0 .. first_position + rows - 1
};

class AttentionPlan {
 public:
  AttentionPlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int threads);

  // q and out: [rows of the batch, heads * head_dim], strides in floats from row to row.
  void run(const CpuKernels& cpu, ComputeTeam& team, const KvLayer& kv, const float* q, std::int64_t q_stride,
           float* out, std::int64_t out_stride);

 private:
  struct Tile {
    int sequence, row, rows, kv_head, head_begin, heads;
    int block_begin, block_end;
    std::int64_t partials = -1;  // offset into partials_, or -1: the tile is computed in one go
    int pieces = 1;
    std::int64_t cost() const { return static_cast<std::int64_t>(block_end - block_begin) * rows * heads; }
  };
  struct Piece {
    int tile, block_begin, block_end;
  };
  void add_tiles(int sequence);
  void cut(int threads);

  AttentionShape shape_;
  std::vector<AttentionSequence> sequences_;
  std::vector<Tile> tiles_;
  std::vector<Piece> pieces_;
  std::vector<int> split_tiles_;
  std::vector<float> partials_;
};

}  // namespace espalier
