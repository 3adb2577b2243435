// attention.h: attention of one ragged batch (decoding sequences and prompt chunks together) over extents of the token
// pool.
//
// The work is cut into tiles: some rows x the query heads of one KV head x a range of position blocks. Sequences whose
// first positions lie in the same slots (they share a prefix of the radix tree) put their rows into common tiles for
// those blocks, so that the shared keys and values are read once for all of them; each goes on alone from there, or in
// a smaller group: the groups form a tree, worked through level by level. Few long tiles are cut again over blocks. All
// of it folds block by block in order of position, so the bits depend neither on the cut nor on the company (promise
// 1). A plan depends on the batch and the window alone and is made once per step, not per layer. Threads: one caller;
// the team computes. Fails: never.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/compute_team.h"
#include "kernels/cpu/table.h"
#include "kernels/matmul.h"

namespace espalier {

struct AttentionShape {
  int heads, kv_heads, head_dim;
  std::int64_t window = 0;  // positions a query sees, itself included; 0 = all
  float scale = 0.0f;
  bool exact = false;  // float32 arithmetic also where stored types would allow shorter
  int group() const { return heads / kv_heads; }
  bool operator==(const AttentionShape&) const = default;
};

// One sequence's part of the batch. Keys and values of all its positions, those of these rows included, are stored.
struct AttentionSequence {
  int row_begin, rows;          // rows of q and out
  std::int64_t first_position;  // of row_begin
  std::span<const KvRun> runs;  // cover positions 0 .. first_position + rows - 1
};

// Sequences with the same slots from position 0 to the end of block_end, in the tree of such groups.
struct SharedBlocks {
  std::vector<int> sequences;
  int block_begin, block_end;  // block_begin: where the parent group ends
  int level;                   // 0: a root
};
// Worth a group: rows few enough that reading keys and values is what costs, blocks enough to pay for a level.
std::vector<SharedBlocks> shared_blocks(std::span<const AttentionSequence> sequences);

enum class PrefixSharing { on, off };  // off: for tests and benchmarks

class AttentionPlan {
 public:
  AttentionPlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int threads,
                PrefixSharing sharing = PrefixSharing::on);

  // q and out: [rows of the batch, heads * head_dim], strides in floats from row to row. converted: the same in another
  // form, made while it lies in the nearest cache; head_dim is a multiple of 32 then.
  void run(const CpuKernels& cpu, ComputeTeam& team, const KvLayer& kv, const float* q, std::int64_t q_stride,
           float* out, std::int64_t out_stride, std::optional<ConvertedRows> converted = {});

 private:
  struct Tile {
    int sequence;         // whose runs are followed
    int first_row, rows;  // in query_rows_
    int kv_head, head_begin, heads;
    int block_begin, block_end;
    std::int64_t position_end;
    bool begin_in_state, end_in_state;
    int level;
    std::int64_t partials = -1;  // offset into partials_, or -1: the tile is computed in one go
    int pieces = 1;
    std::int64_t cost() const { return static_cast<std::int64_t>(block_end - block_begin) * rows * heads; }
  };
  struct Piece {
    int tile, block_begin, block_end;
  };
  struct Level {  // what may run at the same time
    std::vector<Piece> pieces;
    std::vector<int> split_tiles;
  };
  void add_group(const SharedBlocks& group);
  void add_sequence(int sequence, int from_block, int level);
  void add_tiles(Tile like, int first_row, int rows);
  void put_in_order(std::vector<int>& tiles) const;
  void cut(Level& level, std::span<const int> tiles, int threads);
  AttentionTask task_of(const Tile& tile) const;
  AttentionSpan span_of(const Piece& piece) const;
  void convert(const CpuKernels& cpu, const Tile& tile, const float* out, std::int64_t out_stride,
               const ConvertedRows& to) const;

  AttentionShape shape_;
  std::vector<AttentionSequence> sequences_;
  std::vector<QueryRow> query_rows_;
  std::vector<Tile> tiles_;
  std::vector<Level> levels_;
  std::vector<float> partials_, states_;
};

}  // namespace espalier
