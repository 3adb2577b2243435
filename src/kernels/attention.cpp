#include "kernels/attention.h"

#include <algorithm>

namespace espalier {
namespace {

// Rows of a tile: as many queries as a tile takes, a multiple of four where possible (the kernels' inner tile).
int tile_rows(int heads) {
  const int most = std::max(1, kTileQueries / heads);
  for (int rows = most; rows > most / 2; --rows)
    if (rows * heads % 4 == 0) return rows;
  return most;
}

}  // namespace

AttentionPlan::AttentionPlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int threads)
    : shape_(shape), sequences_(sequences.begin(), sequences.end()) {
  for (int i = 0; i < static_cast<int>(sequences_.size()); ++i) add_tiles(i);
  // Long tiles first: the team's members then end together.
  std::stable_sort(tiles_.begin(), tiles_.end(), [](const Tile& a, const Tile& b) { return a.cost() > b.cost(); });
  cut(threads);
}

void AttentionPlan::add_tiles(int index) {
  const AttentionSequence& sequence = sequences_[static_cast<std::size_t>(index)];
  const int heads = std::min(shape_.group(), kTileQueries), rows = tile_rows(heads);
  for (int row = 0; row < sequence.rows; row += rows) {
    const int count = std::min(rows, sequence.rows - row);
    const std::int64_t first = sequence.first_position + row, end = first + count;
    const std::int64_t seen_from = shape_.window > 0 ? std::max<std::int64_t>(0, first - shape_.window + 1) : 0;
    for (int kv_head = 0; kv_head < shape_.kv_heads; ++kv_head)
      for (int head = 0; head < shape_.group(); head += heads) {
        Tile tile{index,
                  row,
                  count,
                  kv_head,
                  kv_head * shape_.group() + head,
                  std::min(heads, shape_.group() - head),
                  static_cast<int>(seen_from / kAttentionBlock),
                  static_cast<int>((end + kAttentionBlock - 1) / kAttentionBlock)};
        tiles_.push_back(tile);
      }
  }
}

void AttentionPlan::cut(int threads) {
  constexpr std::int64_t kLeastBlocks = 4;  // below, writing and folding partials costs more than it gives
  std::int64_t total = 0;
  for (const Tile& tile : tiles_) total += tile.cost();
  const std::int64_t share = threads > 1 ? total / (3 * threads) : total;
  for (int i = 0; i < static_cast<int>(tiles_.size()); ++i) {
    Tile& tile = tiles_[static_cast<std::size_t>(i)];
    const std::int64_t blocks = tile.block_end - tile.block_begin;
    if (threads > 1 && tile.cost() > share && blocks >= 2 * kLeastBlocks)
      tile.pieces = static_cast<int>(
          std::min((tile.cost() + share - 1) / std::max<std::int64_t>(1, share), blocks / kLeastBlocks));
    if (tile.pieces > 1) {
      tile.partials = static_cast<std::int64_t>(partials_.size());
      partials_.resize(partials_.size() +
                       static_cast<std::size_t>(blocks * tile.rows * tile.heads * (padded_head(shape_.head_dim) + 2)));
      split_tiles_.push_back(i);
    }
    for (int piece = 0; piece < tile.pieces; ++piece)
      pieces_.push_back({i, tile.block_begin + static_cast<int>(blocks * piece / tile.pieces),
                         tile.block_begin + static_cast<int>(blocks * (piece + 1) / tile.pieces)});
  }
}

void AttentionPlan::run(const CpuKernels& cpu, ComputeTeam& team, const KvLayer& kv, const float* q,
                        std::int64_t q_stride, float* out, std::int64_t out_stride) {
  team.run(static_cast<int>(pieces_.size()), [&](int i) {
    const Piece& piece = pieces_[static_cast<std::size_t>(i)];
    const Tile& tile = tiles_[static_cast<std::size_t>(piece.tile)];
    const AttentionSequence& sequence = sequences_[static_cast<std::size_t>(tile.sequence)];
    AttentionTask task{};
    task.kv = kv;
    task.kv_head = tile.kv_head;
    task.head_begin = tile.head_begin;
    task.heads = tile.heads;
    task.head_dim = shape_.head_dim;
    task.runs = sequence.runs.data();
    task.run_count = static_cast<int>(sequence.runs.size());
    task.q = q + (sequence.row_begin + tile.row) * q_stride;
    task.q_stride = q_stride;
    task.rows = tile.rows;
    task.first_position = sequence.first_position + tile.row;
    task.window = shape_.window;
    task.scale = shape_.scale;
    task.block_begin = piece.block_begin;
    task.block_end = piece.block_end;
    task.out = out + (sequence.row_begin + tile.row) * out_stride;
    task.out_stride = out_stride;
    const std::int64_t per_block =
        static_cast<std::int64_t>(tile.rows) * tile.heads * (padded_head(shape_.head_dim) + 2);
    if (tile.partials >= 0)
      task.partials = partials_.data() + tile.partials + (piece.block_begin - tile.block_begin) * per_block;
    cpu.attend(task);
  });
  team.run(static_cast<int>(split_tiles_.size()), [&](int i) {
    const Tile& tile = tiles_[static_cast<std::size_t>(split_tiles_[static_cast<std::size_t>(i)])];
    const AttentionSequence& sequence = sequences_[static_cast<std::size_t>(tile.sequence)];
    cpu.merge({partials_.data() + tile.partials, tile.block_end - tile.block_begin, tile.rows, tile.head_begin,
               tile.heads, shape_.head_dim, out + (sequence.row_begin + tile.row) * out_stride, out_stride});
  });
}

}  // namespace espalier
