#include "kernels/attention.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace espalier {
namespace {

constexpr int kMostSharingRows = 8;  // of one sequence: more rows reuse keys and values well enough alone
constexpr int kLeastSavedBlocks =
    6;  // reads of a block that a group must spare: each level costs a meeting of the team

// Rows of a tile: as many queries as a tile takes, a multiple of four where possible (the kernels' inner tile).
int tile_rows(int heads) {
  const int most = std::max(1, kTileQueries / heads);
  for (int rows = most; rows > most / 2; --rows)
    if (rows * heads % 4 == 0) return rows;
  return most;
}

// Walks the slots of a sequence in stretches that follow one another.
struct SlotWalk {
  std::span<const KvRun> runs;
  std::int32_t done = 0;  // of runs.front()
  bool at_end() const { return runs.empty(); }
  Slot slot() const { return runs.front().start + done; }
  std::int32_t left() const { return runs.front().length - done; }
  void advance(std::int32_t n) {
    done += n;
    while (!runs.empty() && done >= runs.front().length) {
      done -= runs.front().length;
      runs = runs.subspan(1);
    }
  }
};

struct Comparison {
  std::int64_t common = 0;  // leading positions in the same slots
  bool less = false;
};
Comparison compare(std::span<const KvRun> a, std::span<const KvRun> b) {
  Comparison result;
  SlotWalk x{a}, y{b};
  while (!x.at_end() && !y.at_end() && x.slot() == y.slot()) {
    const std::int32_t same = std::min(x.left(), y.left());
    result.common += same;
    x.advance(same);
    y.advance(same);
  }
  result.less = x.at_end() ? !y.at_end() : !y.at_end() && x.slot() < y.slot();
  return result;
}

}  // namespace

std::vector<SharedBlocks> shared_blocks(std::span<const AttentionSequence> sequences) {
  std::vector<int> order;
  for (int i = 0; i < static_cast<int>(sequences.size()); ++i) {
    const AttentionSequence& s = sequences[static_cast<std::size_t>(i)];
    if (s.rows <= kMostSharingRows && s.first_position >= kAttentionBlock) order.push_back(i);
  }
  if (order.size() < 2) return {};
  auto runs = [&](int index) { return sequences[static_cast<std::size_t>(index)].runs; };
  auto whole_blocks = [&](int index) {
    return static_cast<int>(sequences[static_cast<std::size_t>(index)].first_position / kAttentionBlock);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return compare(runs(a), runs(b)).less; });
  std::vector<int> common;  // blocks that order[i] and order[i + 1] share
  for (std::size_t i = 0; i + 1 < order.size(); ++i)
    common.push_back(
        static_cast<int>(std::min<std::int64_t>({compare(runs(order[i]), runs(order[i + 1])).common / kAttentionBlock,
                                                 whole_blocks(order[i]), whole_blocks(order[i + 1])})));

  // Ranges of the order that share more than what is already covered become groups; what they share beyond, groups
  // within them.
  struct Range {
    int begin, end, from, level;  // end exclusive
  };
  std::vector<SharedBlocks> groups;
  std::vector<Range> open = {{0, static_cast<int>(order.size()), 0, 0}};
  while (!open.empty()) {
    Range r = open.back();
    open.pop_back();
    const int least = *std::min_element(common.begin() + r.begin, common.begin() + r.end - 1);
    if ((least - r.from) * (r.end - r.begin - 1) >= kLeastSavedBlocks) {
      groups.push_back({{order.begin() + r.begin, order.begin() + r.end}, r.from, least, r.level});
      r.from = least;
      ++r.level;
    }
    for (int begin = r.begin; begin < r.end;) {
      int end = begin + 1;
      while (end < r.end && common[static_cast<std::size_t>(end - 1)] > least) ++end;
      if (end - begin >= 2) open.push_back({begin, end, r.from, r.level});
      begin = end;
    }
  }
  return groups;
}

AttentionPlan::AttentionPlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int threads,
                             PrefixSharing sharing)
    : shape_(shape), sequences_(sequences.begin(), sequences.end()) {
  std::vector<SharedBlocks> groups;
  if (sharing == PrefixSharing::on && shape.window == 0) groups = shared_blocks(sequences_);
  std::vector<int> from(sequences_.size(), 0), level(sequences_.size(), 0);
  for (const SharedBlocks& group : groups) {
    add_group(group);
    for (int s : group.sequences) {
      from[static_cast<std::size_t>(s)] = std::max(from[static_cast<std::size_t>(s)], group.block_end);
      level[static_cast<std::size_t>(s)] = std::max(level[static_cast<std::size_t>(s)], group.level + 1);
    }
  }
  for (int i = 0; i < static_cast<int>(sequences_.size()); ++i)
    add_sequence(i, from[static_cast<std::size_t>(i)], level[static_cast<std::size_t>(i)]);

  const AttentionSequence* last = sequences_.empty() ? nullptr : &sequences_.back();
  if (!groups.empty())
    states_.resize(static_cast<std::size_t>((last->row_begin + last->rows) * shape_.heads) *
                   static_cast<std::size_t>(padded_head(shape_.head_dim) + 2));
  std::map<int, std::vector<int>> by_level;
  for (int i = 0; i < static_cast<int>(tiles_.size()); ++i)
    by_level[tiles_[static_cast<std::size_t>(i)].level].push_back(i);
  for (auto& [number, tiles] : by_level) {
    put_in_order(tiles);
    cut(levels_.emplace_back(), tiles, threads);
  }
}

// Tiles that read the same keys and values behind one another, so that these stay in a cache; what costs most first, so
// that the team's members end together.
void AttentionPlan::put_in_order(std::vector<int>& tiles) const {
  const auto of = [&](int tile) -> const Tile& { return tiles_[static_cast<std::size_t>(tile)]; };
  std::map<std::pair<int, int>, std::int64_t> cost;  // of all tiles of a sequence and KV head
  for (int tile : tiles) cost[{of(tile).sequence, of(tile).kv_head}] += of(tile).cost();
  std::vector<std::tuple<std::int64_t, int, int, std::int64_t, int>> ranks;
  for (int tile : tiles) {
    const Tile& t = of(tile);
    ranks.emplace_back(-cost[{t.sequence, t.kv_head}], t.sequence, t.kv_head, -t.cost(), tile);
  }
  std::sort(ranks.begin(), ranks.end());
  std::transform(ranks.begin(), ranks.end(), tiles.begin(), [](const auto& rank) { return std::get<4>(rank); });
}

void AttentionPlan::add_group(const SharedBlocks& group) {
  const int first = static_cast<int>(query_rows_.size());
  for (int s : group.sequences) {
    const AttentionSequence& sequence = sequences_[static_cast<std::size_t>(s)];
    for (int row = 0; row < sequence.rows; ++row)
      query_rows_.push_back({sequence.row_begin + row, static_cast<std::int32_t>(sequence.first_position + row)});
  }
  Tile like{};
  like.sequence = group.sequences.front();
  like.block_begin = group.block_begin;
  like.block_end = group.block_end;
  like.position_end = static_cast<std::int64_t>(group.block_end) * kAttentionBlock;
  like.begin_in_state = group.level > 0;
  like.end_in_state = true;
  like.level = group.level;
  const int rows = static_cast<int>(query_rows_.size()) - first,
            step = tile_rows(std::min(shape_.group(), kTileQueries));
  for (int row = 0; row < rows; row += step) add_tiles(like, first + row, std::min(step, rows - row));
}

void AttentionPlan::add_sequence(int index, int from_block, int level) {
  const AttentionSequence& sequence = sequences_[static_cast<std::size_t>(index)];
  const int step = tile_rows(std::min(shape_.group(), kTileQueries));
  for (int row = 0; row < sequence.rows; row += step) {
    const int count = std::min(step, sequence.rows - row), first = static_cast<int>(query_rows_.size());
    const std::int64_t position = sequence.first_position + row, end = position + count;
    for (int i = 0; i < count; ++i)
      query_rows_.push_back({sequence.row_begin + row + i, static_cast<std::int32_t>(position + i)});
    const std::int64_t seen_from = shape_.window > 0 ? std::max<std::int64_t>(0, position - shape_.window + 1) : 0;
    Tile like{};
    like.sequence = index;
    like.block_begin = std::max(from_block, static_cast<int>(seen_from / kAttentionBlock));
    like.block_end = static_cast<int>((end + kAttentionBlock - 1) / kAttentionBlock);
    like.position_end = end;
    like.begin_in_state = level > 0;
    like.level = level;
    add_tiles(like, first, count);
  }
}

void AttentionPlan::add_tiles(Tile like, int first_row, int rows) {
  like.first_row = first_row;
  like.rows = rows;
  const int heads = std::min(shape_.group(), kTileQueries);
  for (like.kv_head = 0; like.kv_head < shape_.kv_heads; ++like.kv_head)
    for (int head = 0; head < shape_.group(); head += heads) {
      like.head_begin = like.kv_head * shape_.group() + head;
      like.heads = std::min(heads, shape_.group() - head);
      tiles_.push_back(like);
    }
}

void AttentionPlan::cut(Level& level, std::span<const int> tiles, int threads) {
  constexpr std::int64_t kLeastBlocks = 2;  // below, writing and folding partials costs more than it gives
  std::int64_t total = 0;
  for (int i : tiles) total += tiles_[static_cast<std::size_t>(i)].cost();
  const std::int64_t share = threads > 1 ? total / (3 * threads) : total;
  for (int i : tiles) {
    Tile& tile = tiles_[static_cast<std::size_t>(i)];
    const std::int64_t blocks = tile.block_end - tile.block_begin;
    if (threads > 1 && tile.cost() > share && blocks >= 2 * kLeastBlocks)
      tile.pieces = static_cast<int>(
          std::min((tile.cost() + share - 1) / std::max<std::int64_t>(1, share), blocks / kLeastBlocks));
    if (tile.pieces > 1) {
      tile.partials = static_cast<std::int64_t>(partials_.size());
      partials_.resize(partials_.size() +
                       static_cast<std::size_t>(blocks * tile.rows * tile.heads * (padded_head(shape_.head_dim) + 2)));
      level.split_tiles.push_back(i);
    }
    for (int piece = 0; piece < tile.pieces; ++piece)
      level.pieces.push_back({i, tile.block_begin + static_cast<int>(blocks * piece / tile.pieces),
                              tile.block_begin + static_cast<int>(blocks * (piece + 1) / tile.pieces)});
  }
}

AttentionTask AttentionPlan::task_of(const Tile& tile) const {
  AttentionTask task{};
  task.head_begin = tile.head_begin;
  task.heads = tile.heads;
  task.head_dim = shape_.head_dim;
  task.rows = query_rows_.data() + tile.first_row;
  task.row_count = tile.rows;
  task.window = shape_.window;
  task.scale = shape_.scale;
  task.begin_in_state = tile.begin_in_state;
  task.end_in_state = tile.end_in_state;
  return task;
}

AttentionSpan AttentionPlan::span_of(const Piece& piece) const {
  const Tile& tile = tiles_[static_cast<std::size_t>(piece.tile)];
  const AttentionSequence& sequence = sequences_[static_cast<std::size_t>(tile.sequence)];
  return {sequence.runs.data(), tile.kv_head, piece.block_begin, piece.block_end, tile.position_end};
}

void AttentionPlan::convert(const CpuKernels& cpu, const Tile& tile, const float* out, std::int64_t out_stride,
                            const ConvertedRows& to) const {
  const std::int64_t width = static_cast<std::int64_t>(shape_.heads) * shape_.head_dim,
                     begin = static_cast<std::int64_t>(tile.head_begin) * shape_.head_dim,
                     end = begin + static_cast<std::int64_t>(tile.heads) * shape_.head_dim;
  const std::size_t bytes = row_bytes(to.format, width);
  for (int i = tile.first_row; i < tile.first_row + tile.rows; ++i) {
    const int row = query_rows_[static_cast<std::size_t>(i)].row;
    convert_part(cpu, to.format, out + row * out_stride + begin, width, begin, end,
                 to.data + static_cast<std::size_t>(row) * bytes);
  }
}

void AttentionPlan::run(const CpuKernels& cpu, ComputeTeam& team, const KvLayer& kv, const float* q,
                        std::int64_t q_stride, float* out, std::int64_t out_stride,
                        std::optional<ConvertedRows> converted) {
  const auto attend = kv.type == KvType::bf16 && !shape_.exact && cpu.attend_bf16 ? cpu.attend_bf16 : cpu.attend;
  const int padded = padded_head(shape_.head_dim);
  const FoldStates states{states_.data(), shape_.heads, padded + 2};
  for (const Level& level : levels_) {
    const auto pieces = static_cast<int>(level.pieces.size());
    team.run(pieces, [&](int i) {
      const Piece& piece = level.pieces[static_cast<std::size_t>(i)];
      const Tile& tile = tiles_[static_cast<std::size_t>(piece.tile)];
      AttentionTask task = task_of(tile);
      task.kv = kv;
      task.q = q;
      task.q_stride = q_stride;
      task.span = span_of(piece);
      if (const int then = team.behind(i, pieces); then >= 0)
        task.then = span_of(level.pieces[static_cast<std::size_t>(then)]);
      task.out = out;
      task.out_stride = out_stride;
      task.states = states;
      const std::int64_t per_block = static_cast<std::int64_t>(tile.rows) * tile.heads * (padded + 2);
      if (tile.partials >= 0)
        task.partials = partials_.data() + tile.partials + (piece.block_begin - tile.block_begin) * per_block;
      attend(task);
      if (converted && tile.partials < 0 && !tile.end_in_state) convert(cpu, tile, out, out_stride, *converted);
    });
    if (level.split_tiles.empty()) continue;
    team.run(static_cast<int>(level.split_tiles.size()), [&](int i) {
      const Tile& tile = tiles_[static_cast<std::size_t>(level.split_tiles[static_cast<std::size_t>(i)])];
      cpu.merge({partials_.data() + tile.partials, tile.block_end - tile.block_begin,
                 query_rows_.data() + tile.first_row, tile.rows, tile.head_begin, tile.heads, shape_.head_dim, out,
                 out_stride, states, tile.begin_in_state, tile.end_in_state});
      if (converted && !tile.end_in_state) convert(cpu, tile, out, out_stride, *converted);
    });
  }
}

}  // namespace espalier
