#include "kernels/attention/index_scores.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

namespace espalier {
namespace {

constexpr std::int64_t kMostScores = 16 << 20;  // floats of scores that are kept at a time
constexpr int kTileRows = 8;                    // rows of a prompt that read the same keys from a cache
constexpr int kPieceBlocks = 16;                // of few rows, a piece is at least so long

// Whole numbers in the order of the scores; -0 is 0, NaN the least.
std::uint32_t rank(float score) {
  if (score != score) return 0;
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The rank of which `top` scores are at least as high, and how many of those with this very rank are among them; found
// digit by digit. Requires top >= 1 and as many scores.
struct Threshold {
  std::uint32_t rank = 0;
  int equal = 0;
  Threshold(std::span<const float> scores, int top) {
    constexpr int kDigitBits = 8;
    std::uint32_t known = 0;  // mask of the digits that are found
    int left = top;
    for (int shift = 32 - kDigitBits; shift >= 0; shift -= kDigitBits) {
      std::array<int, 1 << kDigitBits> counts{};
      for (float score : scores)
        if (const std::uint32_t r = espalier::rank(score); (r & known) == rank) ++counts[(r >> shift) & 255u];
      std::uint32_t digit = 255;
      for (; counts[digit] < left; --digit) left -= counts[digit];
      rank |= digit << shift;
      known |= 255u << shift;
    }
    equal = left;
  }
};

// Sets the bits [begin, end).
void set_bits(std::uint64_t* words, std::int64_t begin, std::int64_t end) {
  for (std::int64_t p = begin; p < end;) {
    const std::int64_t in_word = p % 64, count = std::min(end - p, 64 - in_word);
    const std::uint64_t ones = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
    words[p / 64] |= ones << in_word;
    p += count;
  }
}

template <class F>
void each_bit(std::span<const std::uint64_t> words, F f) {
  for (std::size_t w = 0; w < words.size(); ++w)
    for (std::uint64_t left = words[w]; left != 0; left &= left - 1)
      f(static_cast<std::int64_t>(64 * w) + std::countr_zero(left));
}

}  // namespace

void SelectedPositions::reset(int rows, int selections, std::int64_t positions) {
  const std::int64_t words = (positions + 63) / 64;
  row_stride_ = words * selections;
  head_stride_ = selections > 1 ? words : 0;
  words_.assign(static_cast<std::size_t>(row_stride_) * static_cast<std::size_t>(rows), 0);
}

void SelectedPositions::keep_rows(std::span<const int> rows) {
  for (std::int64_t to = 0; const int row : rows) {
    std::copy_n(words_.data() + row * row_stride_, row_stride_, words_.data() + to * row_stride_);
    ++to;
  }
}

void choose_top(std::span<const float> scores, int top, std::span<std::uint64_t> bits) {
  if (top <= 0) return;
  if (std::cmp_greater_equal(top, scores.size()))
    return set_bits(bits.data(), 0, static_cast<std::int64_t>(scores.size()));
  Threshold least(scores, top);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::uint32_t r = rank(scores[i]);
    if (r > least.rank || (r == least.rank && least.equal-- > 0)) bits[i / 64] |= std::uint64_t{1} << (i % 64);
  }
}

IndexPlan::IndexPlan(const IndexShape& shape, std::span<const AttentionSequence> sequences, int threads)
    : shape_(shape), sequences_(sequences.begin(), sequences.end()) {
  for (int i = 0; i < static_cast<int>(sequences_.size()); ++i) {
    const AttentionSequence& s = sequences_[static_cast<std::size_t>(i)];
    for (int row = 0; row < s.rows; row += kTileRows) {
      const int count = std::min(kTileRows, s.rows - row);
      tiles_.push_back({i, static_cast<int>(query_rows_.size()), count, s.first_position + row + count});
      for (int j = row; j < row + count; ++j) {
        const auto position = static_cast<std::int32_t>(s.first_position + j);
        query_rows_.push_back({s.row_begin + j, position, 0, position});
      }
    }
    rows_ = std::max(rows_, s.row_begin + s.rows);
    positions_ = std::max(positions_, s.first_position + s.rows);
  }
  add_passes(threads);
}

int IndexPlan::blocks(const Tile& tile) {
  return static_cast<int>((tile.positions + kAttentionBlock - 1) / kAttentionBlock);
}

void IndexPlan::add_passes(int threads) {
  std::int64_t room = 0;
  for (int i = 0; i < static_cast<int>(tiles_.size()); ++i) {
    Tile& tile = tiles_[static_cast<std::size_t>(i)];
    const int count = blocks(tile);
    const std::int64_t size = std::int64_t{count} * kAttentionBlock * tile.rows * shape_.selections();
    if (passes_.empty() || room + size > kMostScores) {
      passes_.push_back({i, i, {}});
      room = 0;
    }
    tile.scores = room;
    room += size;
    scores_.resize(std::max(scores_.size(), static_cast<std::size_t>(room)));
    passes_.back().tile_end = i + 1;
    const int step = threads > 1 ? std::max(kPieceBlocks, (count + 4 * threads - 1) / (4 * threads)) : count;
    for (int block = 0; block < count; block += step)
      passes_.back().pieces.push_back({i, block, std::min(block + step, count)});
  }
}

IndexTask IndexPlan::task_of(const Piece& piece, const KvLayer& kv, const IndexRows& rows) {
  const Tile& tile = tiles_[static_cast<std::size_t>(piece.tile)];
  const AttentionSequence& sequence = sequences_[static_cast<std::size_t>(tile.sequence)];
  IndexTask task{};
  task.kv = kv;
  task.span = {sequence.runs.data(), 0, piece.block_begin, piece.block_end, tile.positions};
  task.heads = shape_.heads;
  task.dim = shape_.dim;
  task.rows = query_rows_.data() + tile.first_row;
  task.row_count = tile.rows;
  task.q = rows.q;
  task.q_stride = rows.q_stride;
  task.weights = shape_.each_head ? nullptr : rows.weights;
  task.weight_stride = rows.weight_stride;
  task.scale = shape_.scale;
  task.scores = scores_.data() + tile.scores + std::int64_t{piece.block_begin} * kAttentionBlock;
  task.score_stride = std::int64_t{blocks(tile)} * kAttentionBlock;
  return task;
}

// The places that compete for a row are entries, or runs of positions; the bits of the chosen ones become positions.
void IndexPlan::choose(std::span<const float> scores, std::span<std::uint64_t> bits) const {
  thread_local std::vector<float> places;
  thread_local std::vector<std::uint64_t> chosen;
  const auto seen = static_cast<std::int64_t>(scores.size());
  const std::int64_t stride = shape_.entry_stride, run = shape_.run;
  if (stride == 1 && run == 1 && shape_.local_runs == 0) return choose_top(scores, shape_.top, bits);
  places.clear();
  if (stride > 1) {
    for (std::int64_t p = stride - 1; p < seen; p += stride) places.push_back(scores[static_cast<std::size_t>(p)]);
  } else {
    for (std::int64_t p = 0; p < seen; p += run)
      places.push_back(*std::max_element(scores.begin() + p, scores.begin() + std::min(p + run, seen)));
    for (int i = 0; i < shape_.local_runs && std::cmp_less(i, places.size()); ++i)
      places[places.size() - 1 - static_cast<std::size_t>(i)] = std::numeric_limits<float>::infinity();
  }
  chosen.assign((places.size() + 63) / 64, 0);
  choose_top(places, shape_.top, chosen);
  each_bit(chosen, [&](std::int64_t place) {
    if (stride > run)
      set_bits(bits.data(), (place + 1) * stride - 1, (place + 1) * stride);
    else
      set_bits(bits.data(), place * run, std::min((place + 1) * run, seen));
  });
  if (stride > 1 && stride == run) set_bits(bits.data(), seen / stride * stride, seen);
}

void IndexPlan::choose_row(const Tile& tile, int row, SelectedPositions& out) const {
  const QueryRow& of = query_rows_[static_cast<std::size_t>(tile.first_row) + static_cast<std::size_t>(row)];
  const auto seen = static_cast<std::size_t>(of.last) + 1;
  const std::int64_t stride = std::int64_t{blocks(tile)} * kAttentionBlock;
  for (int selection = 0; selection < shape_.selections(); ++selection) {
    const float* scores = scores_.data() + tile.scores + (std::int64_t{row} * shape_.selections() + selection) * stride;
    choose({scores, seen}, {out.of(of.row, selection), (seen + 63) / 64});
  }
}

void IndexPlan::run(const CpuKernels& cpu, ComputeTeam& team, const KvLayer& kv, const IndexRows& rows,
                    SelectedPositions& out) {
  out.reset(rows_, shape_.selections(), positions_);
  const bool short_products = kv.type == KvType::bf16 && !shape_.exact && cpu.index_scores_bf16;
  const auto compute = short_products ? cpu.index_scores_bf16 : cpu.index_scores;
  for (const Pass& pass : passes_) {
    team.run(static_cast<int>(pass.pieces.size()),
             [&](int i) { compute(task_of(pass.pieces[static_cast<std::size_t>(i)], kv, rows)); });
    team.run((pass.tile_end - pass.tile_begin) * kTileRows, [&](int i) {
      const Tile& tile = tiles_[static_cast<std::size_t>(pass.tile_begin) + static_cast<std::size_t>(i / kTileRows)];
      if (i % kTileRows < tile.rows) choose_row(tile, i % kTileRows, out);
    });
  }
}

}  // namespace espalier
