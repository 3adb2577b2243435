#include "kernels/attention/attention.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace espalier {
namespace {

constexpr int kMostSharingRows = 8;  // of one sequence: more rows reuse keys and values well enough alone
// Reads of a block that a group must spare: each level costs a meeting of the team.
constexpr int kLeastSavedBlocks = 6;
// Keys and values that tiles of one bundle read in turns: about half of a second-level cache.
constexpr std::size_t kBundleBytes = 768 << 10;

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

// What one call of run() works on.
struct AttentionPlan::Call {
  const CpuKernels& cpu;
  const KvLayer& kv;
  const AttentionRows& rows;
  void (*attend)(const AttentionTask&);
  FoldStates states;
  bool begins_in_state(const Tile& tile) const { return tile.begin_in_state || rows.begin_in_states; }
  bool ends_in_state(const Tile& tile) const { return tile.end_in_state || rows.end_in_states; }
};

AttentionPlan::AttentionPlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int threads,
                             PrefixSharing sharing)
    : shape_(shape), sequences_(sequences.begin(), sequences.end()) {
  std::vector<SharedBlocks> groups;
  if (sharing == PrefixSharing::on && shape.visible.rule == Visibility::Rule::all) groups = shared_blocks(sequences_);
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

  std::map<int, std::vector<int>> by_level;
  for (int i = 0; i < static_cast<int>(tiles_.size()); ++i)
    by_level[tiles_[static_cast<std::size_t>(i)].level].push_back(i);
  bool states = !groups.empty();
  for (auto& [number, tiles] : by_level) {
    put_in_order(tiles);
    cut(levels_.emplace_back(), tiles, threads);
    for (const Piece& piece : levels_.back().pieces) states |= piece.tiles > 1;
  }
  if (states) states_.resize(state_floats(shape_, sequences_.back().row_begin + sequences_.back().rows));
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
    ranks.emplace_back(-cost[{t.sequence, t.kv_head}], t.sequence, t.kv_head, -t.cost() / t.heads, tile);
  }
  std::sort(ranks.begin(), ranks.end());
  std::transform(ranks.begin(), ranks.end(), tiles.begin(), [](const auto& rank) { return std::get<4>(rank); });
}

QueryRow query_row(const AttentionSequence& sequence, int row, const Visibility& visible) {
  const std::int64_t position = sequence.first_position + row;
  const std::int32_t last =
      sequence.last.empty() ? static_cast<std::int32_t>(position) : sequence.last[static_cast<std::size_t>(row)];
  auto first = static_cast<std::int32_t>(visible.first(position));
  if (!sequence.from.empty()) first = std::min(first, sequence.from[static_cast<std::size_t>(row)]);
  return {sequence.row_begin + row, static_cast<std::int32_t>(position), first, last};
}

void AttentionPlan::add_group(const SharedBlocks& group) {
  const int first = static_cast<int>(query_rows_.size());
  for (int s : group.sequences) {
    const AttentionSequence& sequence = sequences_[static_cast<std::size_t>(s)];
    for (int row = 0; row < sequence.rows; ++row) query_rows_.push_back(query_row(sequence, row, shape_.visible));
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
    std::int64_t seen_from = INT64_MAX, end = 0;
    for (int i = 0; i < count; ++i) {
      const QueryRow& added = query_rows_.emplace_back(query_row(sequence, row + i, shape_.visible));
      seen_from = std::min<std::int64_t>(seen_from, added.first);
      end = std::max<std::int64_t>(end, std::int64_t{added.last} + 1);
    }
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

// How many tiles from tiles[at] on are the same rows and KV head.
int AttentionPlan::bundle_at(std::span<const int> tiles, std::size_t at) const {
  const auto of = [&](std::size_t i) -> const Tile& { return tiles_[static_cast<std::size_t>(tiles[i])]; };
  std::size_t end = at + 1;
  while (end < tiles.size() && of(end).first_row == of(at).first_row && of(end).kv_head == of(at).kv_head) ++end;
  return static_cast<int>(end - at);
}

void AttentionPlan::cut(Level& level, std::span<const int> tiles, int threads) {
  std::int64_t total = 0;
  for (int i : tiles) total += tiles_[static_cast<std::size_t>(i)].cost();
  const std::int64_t share = threads > 1 ? std::max<std::int64_t>(1, total / (3 * threads)) : total;
  for (std::size_t at = 0; at < tiles.size();) {
    const int count = bundle_at(tiles, at);
    cut_bundle(level, tiles.subspan(at, static_cast<std::size_t>(count)), threads, share);
    at += static_cast<std::size_t>(count);
  }
}

// Tiles of the same rows follow one another in tiles_ (add_tiles).
void AttentionPlan::cut_bundle(Level& level, std::span<const int> tiles, int threads, std::int64_t share) {
  std::int64_t cost = 0;
  for (int i : tiles) cost += tiles_[static_cast<std::size_t>(i)].cost();
  const auto count = static_cast<std::int64_t>(tiles.size());
  const std::int64_t wanted = threads > 1 && cost > share ? (cost + share - 1) / share : 1;
  if (count == 1) return cut_tile(level, tiles.front(), wanted);
  if (wanted > count) {
    // Over blocks as well, unless the tiles alone keep everybody busy: partials of wide values cost.
    for (int i : tiles) cut_tile(level, i, count % threads == 0 ? 1 : (wanted + count - 1) / count);
    return;
  }
  for (std::int64_t part = 0; part < wanted; ++part) {
    const auto begin = static_cast<std::size_t>(count * part / wanted),
               end = static_cast<std::size_t>(count * (part + 1) / wanted);
    const Tile& first = tiles_[static_cast<std::size_t>(tiles[begin])];
    level.pieces.push_back({tiles[begin], static_cast<int>(end - begin), first.block_begin, first.block_end});
  }
}

void AttentionPlan::cut_tile(Level& level, int index, std::int64_t wanted) {
  constexpr std::int64_t kLeastBlocks = 2;  // below, writing and folding partials costs more than it gives
  Tile& tile = tiles_[static_cast<std::size_t>(index)];
  const std::int64_t blocks = tile.block_end - tile.block_begin;
  if (wanted > 1 && blocks >= 2 * kLeastBlocks) tile.pieces = static_cast<int>(std::min(wanted, blocks / kLeastBlocks));
  if (tile.pieces > 1) {
    tile.partials = static_cast<std::int64_t>(partials_.size());
    partials_.resize(partials_.size() + static_cast<std::size_t>(blocks * tile.rows * tile.heads *
                                                                 FoldStates::stride_of(shape_.value_dim)));
    level.split_tiles.push_back(index);
  }
  for (int piece = 0; piece < tile.pieces; ++piece)
    level.pieces.push_back({index, 1, tile.block_begin + static_cast<int>(blocks * piece / tile.pieces),
                            tile.block_begin + static_cast<int>(blocks * (piece + 1) / tile.pieces)});
}

AttentionTask AttentionPlan::task_of(const Tile& tile, const Call& call) const {
  AttentionTask task{};
  task.kv = call.kv;
  task.head_begin = tile.head_begin;
  task.heads = tile.heads;
  task.dims = {shape_.key_dim, shape_.value_dim};
  task.rows = query_rows_.data() + tile.first_row;
  task.row_count = tile.rows;
  task.q = call.rows.q;
  task.q_stride = call.rows.q_stride;
  task.score = {shape_.scale, shape_.cap, shape_.slopes, shape_.bias};
  task.selection = call.rows.selection;
  task.entry_stride = shape_.entry_stride;
  task.sinks = call.rows.sinks;
  task.out = call.rows.out;
  task.out_stride = call.rows.out_stride;
  task.states = call.states;
  task.begin_in_state = call.begins_in_state(tile);
  task.end_in_state = call.ends_in_state(tile);
  return task;
}

AttentionSpan AttentionPlan::span_of(const Tile& tile, int block_begin, int block_end) const {
  const AttentionSequence& sequence = sequences_[static_cast<std::size_t>(tile.sequence)];
  return {sequence.runs.data(), tile.kv_head, block_begin, block_end, tile.position_end};
}

// then: the piece that whoever computes this one probably computes next, or null.
void AttentionPlan::compute(const Piece& piece, const Piece* then, const Call& call) {
  if (piece.tiles > 1) return compute_bundle(piece, call);
  const Tile& tile = tiles_[static_cast<std::size_t>(piece.tile)];
  AttentionTask task = task_of(tile, call);
  task.span = span_of(tile, piece.block_begin, piece.block_end);
  if (then) task.then = span_of(tiles_[static_cast<std::size_t>(then->tile)], then->block_begin, then->block_end);
  if (tile.partials >= 0)
    task.partials = partials_.data() + tile.partials +
                    static_cast<std::int64_t>(piece.block_begin - tile.block_begin) * tile.rows * tile.heads *
                        FoldStates::stride_of(shape_.value_dim);
  call.attend(task);
  if (tile.partials < 0) convert(tile, call);
}

// The tiles take turns over as many blocks as stay in a cache, each going on from its state.
void AttentionPlan::compute_bundle(const Piece& piece, const Call& call) {
  const int read = padded_head(shape_.key_dim) + (call.kv.values ? padded_head(shape_.value_dim) : 0);
  const auto of_token = static_cast<std::size_t>(read) * static_cast<std::size_t>(element_bytes(call.kv.type));
  const int step = std::max(1, static_cast<int>(kBundleBytes / (of_token * kAttentionBlock)));
  for (int block = piece.block_begin; block == piece.block_begin || block < piece.block_end; block += step) {
    const int end = std::min(block + step, piece.block_end);
    for (int i = 0; i < piece.tiles; ++i) {
      const Tile& tile = tiles_[static_cast<std::size_t>(piece.tile) + static_cast<std::size_t>(i)];
      AttentionTask task = task_of(tile, call);
      task.span = span_of(tile, block, end);
      task.begin_in_state |= block > piece.block_begin;
      task.end_in_state |= end < piece.block_end;
      call.attend(task);
      if (!task.end_in_state) convert(tile, call);
    }
  }
}

void AttentionPlan::convert(const Tile& tile, const Call& call) const {
  if (!call.rows.converted || call.ends_in_state(tile)) return;
  const ConvertedRows& to = *call.rows.converted;
  const std::int64_t width = static_cast<std::int64_t>(shape_.heads) * shape_.value_dim,
                     begin = static_cast<std::int64_t>(tile.head_begin) * shape_.value_dim,
                     end = begin + static_cast<std::int64_t>(tile.heads) * shape_.value_dim;
  const std::size_t bytes = row_bytes(to.format, width);
  for (int i = tile.first_row; i < tile.first_row + tile.rows; ++i) {
    const int row = query_rows_[static_cast<std::size_t>(i)].row;
    convert_part(call.cpu, to.format, call.rows.out + row * call.rows.out_stride + begin, width, begin, end,
                 to.data + static_cast<std::size_t>(row) * bytes);
  }
}

void AttentionPlan::merge(const Tile& tile, const Call& call) const {
  call.cpu.merge({partials_.data() + tile.partials, tile.block_end - tile.block_begin,
                  query_rows_.data() + tile.first_row, tile.rows, tile.head_begin, tile.heads, shape_.value_dim,
                  call.rows.sinks, call.rows.out, call.rows.out_stride, call.states, call.begins_in_state(tile),
                  call.ends_in_state(tile)});
  convert(tile, call);
}

void AttentionPlan::run(const CpuKernels& cpu, ComputeTeam& team, const KvLayer& kv, const AttentionRows& rows) {
  const auto short_products = kv.form == KvForm::latent ? cpu.attend_latent_bf16 : cpu.attend_bf16;
  const Call call{cpu, kv, rows,
                  kv.type == KvType::bf16 && !shape_.exact && short_products ? short_products : cpu.attend,
                  rows.states.memory ? rows.states : states_at(shape_, states_.data())};
  for (const Level& level : levels_) {
    const auto pieces = static_cast<int>(level.pieces.size());
    team.run(pieces, [&](int i) {
      const int then = team.behind(i, pieces);
      compute(level.pieces[static_cast<std::size_t>(i)],
              then >= 0 ? &level.pieces[static_cast<std::size_t>(then)] : nullptr, call);
    });
    if (level.split_tiles.empty()) continue;
    team.run(static_cast<int>(level.split_tiles.size()), [&](int i) {
      merge(tiles_[static_cast<std::size_t>(level.split_tiles[static_cast<std::size_t>(i)])], call);
    });
  }
}

}  // namespace espalier
