// attention.h: attention of one ragged batch (decoding sequences and prompt chunks together) over extents of the token
// pool.
//
// The work is cut into tiles: some rows x the query heads of one KV head x a range of position blocks. Sequences whose
// first positions lie in the same slots (they share a prefix of the radix tree) put their rows into common tiles for
// those blocks, so that the shared keys and values are read once for all of them; each goes on alone from there, or in
// a smaller group: the groups form a tree, worked through level by level. Few long tiles are cut again over blocks;
// tiles of many query heads over one KV head take turns over the same blocks. All of it folds block by block in order
// of position, so the bits depend neither on the cut nor on the company (promise 1). A plan depends on the batch and
// the shape alone and is made once per step and shape, not per layer. Threads: one caller; the team computes. Fails:
// never.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/threads/compute_team.h"
#include "kernels/attention/visibility.h"
#include "kernels/cpu/table.h"
#include "kernels/matmul/matmul.h"

namespace espalier {

// What the attention of some layers has in common.
struct AttentionShape {
  int heads, kv_heads;
  int key_dim, value_dim;  // at most kMaxKeyDim, kMaxValueDim
  Visibility visible = {};
  float scale = 0.0f;             // of scores, usually 1 / sqrt(key_dim)
  bool exact = false;             // float32 arithmetic also where stored types would allow shorter
  float cap = 0.0f;               // scores become cap * tanh(score / cap); 0: they stay
  const float* slopes = nullptr;  // [heads], ALiBi: slope * (key's position - query's position) is added; or null
  DistanceBias bias = {};
  int entry_stride = 1;  // keys stand only at the last of so many positions (compressed entries): p % n == n - 1
  int group() const { return heads / kv_heads; }
  bool operator==(const AttentionShape&) const = default;
};

// One sequence's part of the batch. Keys and values of all positions that these rows see are stored.
struct AttentionSequence {
  int row_begin, rows;          // rows of q and out
  std::int64_t first_position;  // of row_begin
  std::span<const KvRun> runs;  // cover positions 0 .. first_position + rows - 1, and those of `last`
  // [rows] or empty: the last position that each row sees, where it is not its own (an image's rows see to its end).
  std::span<const std::int32_t> last = {};
  // [rows] or empty: a position from which on each row sees whatever the rule of visibility says (an image's first one).
  std::span<const std::int32_t> from = {};
};

// What row `row` of a sequence sees by a rule.
QueryRow query_row(const AttentionSequence& sequence, int row, const Visibility& visible);

// Sequences with the same slots from position 0 to the end of block_end, in the tree of such groups.
struct SharedBlocks {
  std::vector<int> sequences;
  int block_begin, block_end;  // block_begin: where the parent group ends
  int level;                   // 0: a root
};
// Worth a group: rows few enough that reading keys and values is what costs, blocks enough to pay for a level.
std::vector<SharedBlocks> shared_blocks(std::span<const AttentionSequence> sequences);

enum class PrefixSharing { on, off };  // off: for tests and benchmarks

// What one layer's attention reads and writes.
struct AttentionRows {
  const float* q;         // [rows of the batch, heads * key_dim]
  std::int64_t q_stride;  // floats from row to row
  float* out;             // [rows of the batch, heads * value_dim]; not touched with end_in_states
  std::int64_t out_stride;
  std::optional<ConvertedRows> converted = {};  // out in another form too, made while it lies in the nearest cache;
                                                // value_dim is a multiple of 32 then
  const float* sinks = nullptr;                 // [heads]: logits that join the denominators; or null
  Selection selection = {};
  // Attention over two layers of keys and values under one softmax (a window, then compressed entries): a run that ends
  // in states, then a run of another plan over the same rows, with the same heads and value_dim, that begins in them.
  // The sinks go to the last one. Sized by state_floats().
  FoldStates states = {};
  bool begin_in_states = false, end_in_states = false;
};

// How a batch's attention is cut, for layers of one shape.
class AttentionPlan {
 public:
  AttentionPlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int threads,
                PrefixSharing sharing = PrefixSharing::on);

  void run(const CpuKernels& cpu, ComputeTeam& team, const KvLayer& kv, const AttentionRows& rows);

  // Floats of the states of so many rows.
  static std::size_t state_floats(const AttentionShape& shape, int rows) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.heads) *
           static_cast<std::size_t>(FoldStates::stride_of(shape.value_dim));
  }
  static FoldStates states_at(const AttentionShape& shape, float* memory) {
    return {memory, shape.heads, FoldStates::stride_of(shape.value_dim)};
  }

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
  struct Piece {  // some tiles from `tile` on, the same rows and blocks with other heads; more than one: all blocks
    int tile, tiles, block_begin, block_end;
  };
  struct Level {  // what may run at the same time
    std::vector<Piece> pieces;
    std::vector<int> split_tiles;
  };
  struct Call;
  void add_group(const SharedBlocks& group);
  void add_sequence(int sequence, int from_block, int level);
  void add_tiles(Tile like, int first_row, int rows);
  void put_in_order(std::vector<int>& tiles) const;
  int bundle_at(std::span<const int> tiles, std::size_t at) const;
  void cut(Level& level, std::span<const int> tiles, int threads);
  void cut_bundle(Level& level, std::span<const int> tiles, int threads, std::int64_t share);
  void cut_tile(Level& level, int index, std::int64_t wanted);
  AttentionTask task_of(const Tile& tile, const Call& call) const;
  AttentionSpan span_of(const Tile& tile, int block_begin, int block_end) const;
  void compute(const Piece& piece, const Piece* then, const Call& call);
  void compute_bundle(const Piece& piece, const Call& call);
  void merge(const Tile& tile, const Call& call) const;
  void convert(const Tile& tile, const Call& call) const;

  AttentionShape shape_;
  std::vector<AttentionSequence> sequences_;
  std::vector<QueryRow> query_rows_;
  std::vector<Tile> tiles_;
  std::vector<Level> levels_;
  std::vector<float> partials_, states_;
};

}  // namespace espalier
