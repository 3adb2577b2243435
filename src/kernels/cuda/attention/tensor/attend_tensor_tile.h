// attend_tensor_tile.h: what a block of threads works on in attention by tensor cores: rows of one sequence x query heads of one KV
// head, and where the positions lie that any of them sees.
//
// Query j of a tile is row j / heads, head head_begin + j % heads. Threads: those of one block. Fails: never.
#pragma once

#include "kernels/cuda/attention/attention_task.h"
//
#include "kernels/cuda/simt/simd.h"
//
#include "kernels/cuda/attention/attention_folds.h"
#include "kernels/cuda/simt/matrices.h"
#include "kernels/cuda/stored_elements.h"

namespace espalier::cuda::tensor_attention {

using attention::kLog2e;
using attention::kNothing;

inline constexpr int kMostRows = kManyQueries;
inline constexpr int kUnseen = -1;  // in place of the slot of a position that no row sees

ESPALIER_ON_DEVICE inline int smaller(int a, int b) {
  return a < b ? a : b;
}
ESPALIER_ON_DEVICE inline int larger(int a, int b) {
  return a > b ? a : b;
}

// In shared memory.
struct alignas(16) TileFacts {
  int first_row, row_count, kv_head, head_begin, heads, queries;
  int run_begin, run_end;      // of its sequence
  int block_begin, block_end;  // that some row reaches, or a piece's share of them
  int all_from, all_to;        // positions that every row sees
  int any_from, any_to;        // the first and the last one that any row sees
  QueryRow rows[kMostRows];
};

// Where the bytes of queries lie that stand one behind the other.
struct RowsApart {
  int stride;
  ESPALIER_ON_DEVICE int operator()(int row, int byte) const { return row * stride + byte; }
};

// A tile, as every thread knows it.
class Tile {
 public:
  ESPALIER_ON_DEVICE explicit Tile(const AttendTask& task) : t_(task) {}

  // By all threads; part: of the query heads of a KV head.
  ESPALIER_ON_DEVICE void find(const AttendedTile& of, const TensorCut& cut, int kv_head, int part, int piece) const {
    TileFacts& f = facts();
    for (int row = simt::thread(); row < of.rows; row += simt::threads())
      f.rows[row] = t_.rows[of.first_row + row].query;
    if (simt::thread() == 0) {
      const int group = t_.heads / t_.kv_heads;
      f.first_row = of.first_row;
      f.row_count = of.rows;
      f.kv_head = kv_head;
      f.head_begin = kv_head * group + part * cut.heads;
      f.heads = smaller(cut.heads, group - part * cut.heads);
      f.queries = f.row_count * f.heads;
      f.run_begin = t_.rows[of.first_row].run_begin;
      f.run_end = t_.rows[of.first_row].run_end;
    }
    simt::meet();
    if (simt::thread() < 32) find_range(piece);
    simt::meet();
  }

  ESPALIER_ON_DEVICE static TileFacts& facts() { return *simt::shared<TileFacts>(); }
  ESPALIER_ON_DEVICE const AttendTask& task() const { return t_; }
  ESPALIER_ON_DEVICE bool in_pieces() const { return t_.pieces > 1; }
  ESPALIER_ON_DEVICE static const QueryRow& row_of(int query) { return facts().rows[query / facts().heads]; }
  ESPALIER_ON_DEVICE static int head_of(int query) { return facts().head_begin + query % facts().heads; }
  // Where a query's part of a block goes, where the work is in pieces; null: nowhere.
  ESPALIER_ON_DEVICE float* partial(int query, int block) const {
    if (query >= facts().queries) return nullptr;
    const QueryRow& row = row_of(query);
    const int first = attention::first_block_of(row);
    if (block < first || block >= attention::end_block_of(row)) return nullptr;
    return attention::partial_of(t_, facts().first_row + query / facts().heads, block - first, head_of(query));
  }

  // Queries first .. first + count as bf16; those that are not there are zero. place(query, byte): where the byte of one goes.
  template <class Place>
  ESPALIER_ON_DEVICE void take_queries(std::uint8_t* to, int first, int count, Place place) const {
    const int pairs = padded_head(t_.dims.key) / 2;
    for (int i = simt::thread(); i < count * pairs; i += simt::threads()) {
      const int query = first + i / pairs, d = 2 * (i % pairs);
      float x[2] = {0.0f, 0.0f};
      if (query < facts().queries) {
        const float* const from = t_.q + row_of(query).row * t_.q_stride + std::int64_t{head_of(query)} * t_.dims.key;
        if (d < t_.dims.key) x[0] = from[d];
        if (d + 1 < t_.dims.key) x[1] = from[d + 1];
      }
      *reinterpret_cast<unsigned*>(to + place(i / pairs, 2 * d)) = simt::two_bf16(x[0], x[1]);
    }
  }

  // Where a position lies, or kUnseen where no row sees it; a thread asks in ascending order.
  ESPALIER_ON_DEVICE Slot seen_slot(SlotFinder& finder, int position) const {
    const TileFacts& f = facts();
    bool seen = f.all_from <= position && position <= f.all_to;
    for (int row = 0; row < f.row_count && !seen; ++row)
      seen = f.rows[row].first <= position && position <= f.rows[row].last;
    return seen ? finder.slot_of(t_.runs, f.run_begin, f.run_end, position) : kUnseen;
  }
  // Sixteen positions of a block that nobody sees need no work: their weights are zero.
  ESPALIER_ON_DEVICE static bool is_seen(int block, int sixteen) {
    const int begin = block * kAttentionBlock + 16 * sixteen;
    return begin <= facts().any_to && facts().any_from < begin + 16;
  }

 private:
  // By 32 threads.
  ESPALIER_ON_DEVICE void find_range(int piece) const {
    TileFacts& f = facts();
    constexpr int kFar = 1 << 30;
    int from = 0, to = kFar, first = kFar, last = -1;
    for (int i = simt::thread(); i < f.row_count; i += 32) {
      const QueryRow& row = f.rows[i];
      from = larger(from, row.first);
      to = smaller(to, row.last);
      first = smaller(first, row.first);
      last = larger(last, row.last);
    }
    ESPALIER_UNROLL(1)
    for (int half = 16; half > 0; half /= 2) {
      from = larger(from, simt::of_neighbour_xor<32>(from, half));
      to = smaller(to, simt::of_neighbour_xor<32>(to, half));
      first = smaller(first, simt::of_neighbour_xor<32>(first, half));
      last = larger(last, simt::of_neighbour_xor<32>(last, half));
    }
    int begin = larger(first, 0) / kAttentionBlock, end = last < 0 ? 0 : last / kAttentionBlock + 1;
    if (in_pieces()) {
      begin += piece * t_.blocks_each;
      if (piece + 1 < t_.pieces) end = smaller(end, begin + t_.blocks_each);  // the last piece takes what is left
    }
    if (simt::thread() != 0) return;
    f.block_begin = begin;
    f.block_end = end;
    f.all_from = from;
    f.all_to = to;
    f.any_from = first;
    f.any_to = last;
  }

  const AttendTask& t_;
};

}  // namespace espalier::cuda::tensor_attention
