// attend_tensor_many.h: attention by tensor cores of tiles with many queries: each warp has sixteen of them, all share the keys and
// values that come, and fold block by block in registers.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cuda/attention/tensor/attend_tensor_block.h"

namespace espalier::cuda::tensor_attention {

// A block's shared memory: facts; slots; queries [16 * warps][key elements and 16 bytes]; a stream's ring; folded values for which
// there are no registers, [warps][numbers of a thread][32].
template <class Shape>
struct ManyRoom {
  StreamRoom<Shape> stream;
  int warps;
  ESPALIER_EITHER ManyRoom(const HeadDims& dims, int of) : stream(dims), warps(of) {}
  ESPALIER_EITHER int query_stride() const { return 4 * stream.key_pairs + 16; }
  ESPALIER_EITHER static constexpr int table_at() { return static_cast<int>(sizeof(TileFacts)); }
  ESPALIER_EITHER static constexpr int queries_at() { return table_at() + Stream<Shape>::kTableBytes; }
  ESPALIER_EITHER int ring_at() const { return queries_at() + warps * kWarpQueries * query_stride(); }
  ESPALIER_EITHER int folded_at() const { return ring_at() + stream.bytes(); }
  static constexpr int kFoldedBytes = kWarpQueries * (Shape::kWidth - Shape::kHeld) * 4;  // of a warp
  ESPALIER_EITHER int bytes() const { return folded_at() + warps * kFoldedBytes; }
};

// The queries of one tile from `first` on, as many as there are warps for.
template <class Shape>
class Many {
 public:
  ESPALIER_ON_DEVICE Many(const Tile& tile, int first)
      : tile_(tile),
        room_(tile.task().dims, simt::threads() / 32),
        first_query_(first + simt::thread() / 32 * kWarpQueries) {}

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void run() {
    std::uint8_t* const memory = simt::shared<std::uint8_t>();
    const int begin = Tile::facts().block_begin, end = Tile::facts().block_end;
    tile_.take_queries(memory + room_.queries_at(), first_query_ - warp() * kWarpQueries, room_.warps * kWarpQueries,
                       RowsApart{room_.query_stride()});
    Stream<Shape> stream(tile_, room_.table_at(), room_.ring_at(), begin, end, 1);
    stream.begin();
    const LaneQueries queries{first_query_};
    for (int block = begin; block < end; ++block) {
      BlockSums sums;
      score(stream, block, sums);
      if (has_queries()) sums.soften(queries.see(sums, tile_, block));
      join(queries, block, sums);
      weigh(stream, sums);
    }
    if (!tile_.in_pieces() && has_queries()) finish(queries);
  }

 private:
  // What becomes of a query's values of a block: they are folded by these factors, or go there where the work is in pieces.
  struct Part {
    float kept, added;  // added < 0: nothing is seen of the block
    float* partial;     // null: nothing is seen, or nobody asks
  };
  static constexpr int kPieceSixteens = Shape::kPositions / 16, kEights = Shape::kColumns / 8;

  ESPALIER_ON_DEVICE static int warp() { return simt::thread() / 32; }
  ESPALIER_ON_DEVICE bool has_queries() const { return first_query_ < Tile::facts().queries; }

  template <int kPiece = 0>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void score(Stream<Shape>& stream, int block, BlockSums& sums) const {
    if constexpr (kPiece < StreamRoom<Shape>::kKeyPieces) {
      const std::uint8_t* const queries =
          simt::shared<std::uint8_t>() + room_.queries_at() + warp() * kWarpQueries * room_.query_stride();
      if (kPiece == 0) sums.clear();
      const std::uint8_t* const keys = stream.next(kPiece == 0 ? block : -1);
      if (has_queries())
        sums.template score<kPiece * kPieceSixteens, kPieceSixteens>(queries, room_.query_stride(), keys,
                                                                     room_.stream.key_pairs);
      score<kPiece + 1>(stream, block, sums);
    }
  }

  // What becomes of a block's values, and its maxima and sums.
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void join(const LaneQueries& queries, int block, const BlockSums& sums) {
    each<2>([&](auto h) {
      Part& part = parts_[h];
      if (tile_.in_pieces()) {
        part.partial = partial_of(queries.query(h), block, sums.maximum[h], sums.sum[h]);
        return;
      }
      part.added = -1.0f;
      if (!has_queries() || sums.maximum[h] == kNothing) return;
      const attention::Joined joined = attention::join(maximum_[h], sums.maximum[h]);
      part.kept = joined.kept;
      part.added = joined.added;
      sum_[h] = attention::join_sums(joined, sum_[h], sums.sum[h]);
      maximum_[h] = joined.maximum;
    });
  }
  // Where its values go, or null; its maximum and sum are put there.
  ESPALIER_ON_DEVICE float* partial_of(int query, int block, float maximum, float sum) const {
    float* const to = tile_.partial(query, block);
    if (to == nullptr) return nullptr;
    const int width = 8 * room_.stream.value_sixteens;
    if (lane_column() == 0) {
      to[width] = maximum;
      to[width + 1] = sum;
    }
    return maximum == kNothing ? nullptr : to;
  }

  template <int kPiece = 0>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void weigh(Stream<Shape>& stream, const BlockSums& sums) {
    if constexpr (kPiece < Shape::kWidth / Shape::kColumns) {
      if (kPiece >= room_.stream.value_pieces()) return;
      const std::uint8_t* const values = stream.next(-1);
      if (has_queries()) {
        float of_block[kEights][4];
        each<kEights, 4>([&](auto n, auto i) { of_block[n][i] = 0.0f; });
        sums.template weigh<0, kSixteens>(values, room_.stream.value_stride(), of_block);
        each<kEights, 2>(
            [&](auto n, auto h) { add<kPiece * kEights + n>(h, of_block[n][2 * h], of_block[n][2 * h + 1]); });
      }
      weigh<kPiece + 1>(stream, sums);
    }
  }
  // Two elements of a block's values.
  template <int kEight>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void add(int h, float first, float second) {
    const int element = 8 * kEight + 2 * lane_column();
    if (tile_.in_pieces()) {
      float* const to = parts_[h].partial;
      if (to == nullptr || element >= 8 * room_.stream.value_sixteens) return;
      to[element] = first;
      to[element + 1] = second;
      return;
    }
    const float kept = parts_[h].kept, added = parts_[h].added;
    if (added < 0.0f) return;
    float &a = folded<kEight>(2 * h), &b = folded<kEight>(2 * h + 1);
    a = attention::join_values(kept, added, a, first);
    b = attention::join_values(kept, added, b, second);
  }

  // Folded values of eight elements: a thread's four of them.
  template <int kEight>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE float& folded(int i) {
    if constexpr (kEight < Shape::kHeld / 8) {
      return folded_[kEight][i];
    } else {
      auto* const of_warp =
          reinterpret_cast<float*>(simt::shared<std::uint8_t>() + room_.folded_at() + warp() * room_.kFoldedBytes);
      return of_warp[((kEight - Shape::kHeld / 8) * 4 + i) * 32 + lane()];
    }
  }

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void finish(const LaneQueries& queries) {
    each<2>([&](auto h) {
      const int query = queries.query(h);
      if (query >= Tile::facts().queries) return;
      const int row = Tile::row_of(query).row, head = Tile::head_of(query);
      each<Shape::kWidth / 8, 2>([&](auto n, auto i) {
        const int element = 8 * n + 2 * lane_column() + i;
        if (element < 8 * room_.stream.value_sixteens)
          attention::finish(tile_.task(), row, head, element, maximum_[h], sum_[h], folded<n>(2 * h + i));
      });
    });
  }

  const Tile& tile_;
  const ManyRoom<Shape> room_;
  const int first_query_;
  float maximum_[2] = {kNothing, kNothing}, sum_[2] = {};
  Part parts_[2];
  float folded_[Shape::kHeld / 8][4] = {};
};

inline constexpr int kMostWarps = kManyQueries / kWarpQueries;

// Grid: [pieces][tiles] x [KV heads][parts][query_parts]: a tile has more queries than there are warps for, perhaps.
template <class Shape>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(32 * kMostWarps, 1) void attend_many(AttendTensorTask task, TensorCut cut,
                                                                           int query_parts) {
  const Tile tile(task.of);
  const int part = simt::block_y() / query_parts, first = simt::block_y() % query_parts * simt::threads() / 2;
  tile.find(task.many[simt::block_x() % task.many_count], cut, part / cut.parts, part % cut.parts,
            simt::block_x() / task.many_count);
  if (first < Tile::facts().queries) Many<Shape>(tile, first).run();
}

}  // namespace espalier::cuda::tensor_attention
