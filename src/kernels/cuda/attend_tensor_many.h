// attend_tensor_many.h: attention by tensor cores of tiles with many queries: each warp has sixteen of them, all share the keys and
// values that come, and fold block by block in registers.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cuda/attend_tensor_block.h"

namespace espalier::cuda::tensor_attention {

// A block's shared memory: facts; slots; queries [16 * warps][key elements and 16 bytes]; a stream's ring.
template <class Shape>
struct ManyRoom {
  StreamRoom<Shape> stream;
  int warps;
  ESPALIER_EITHER ManyRoom(const HeadDims& dims, int of) : stream(dims), warps(of) {}
  ESPALIER_EITHER int query_stride() const { return 4 * stream.key_pairs + 16; }
  ESPALIER_EITHER static constexpr int table_at() { return static_cast<int>(sizeof(TileFacts)); }
  ESPALIER_EITHER static constexpr int queries_at() { return table_at() + Stream<Shape>::kTableBytes; }
  ESPALIER_EITHER int ring_at() const { return queries_at() + warps * kWarpQueries * query_stride(); }
  ESPALIER_EITHER int bytes() const { return ring_at() + stream.bytes(); }
};

// One tile.
template <class Shape>
class Many {
 public:
  ESPALIER_ON_DEVICE explicit Many(const Tile& tile)
      : tile_(tile), room_(tile.task().dims, simt::threads() / 32), first_query_(simt::thread() / 32 * kWarpQueries) {}

  ESPALIER_ON_DEVICE void run() {
    std::uint8_t* const memory = simt::shared<std::uint8_t>();
    const int begin = Tile::facts().block_begin, end = Tile::facts().block_end;
    tile_.take_queries(memory + room_.queries_at(), room_.warps * kWarpQueries, room_.query_stride());
    Stream<Shape> stream(tile_, reinterpret_cast<Slot*>(memory + room_.table_at()), memory + room_.ring_at(), begin,
                         end, 1);
    stream.begin();
    const LaneQueries queries(tile_, first_query_);
    for (int block = begin; block < end; ++block) {
      BlockSums sums;
      score(stream, block, sums);
      if (has_queries()) queries.soften(sums, tile_, block);
      join(queries, block, sums);
      weigh(stream, sums);
    }
    if (!tile_.in_pieces() && has_queries()) finish(queries);
  }

 private:
  static constexpr int kPieceSixteens = Shape::kPositions / 16, kEights = Shape::kColumns / 8;

  ESPALIER_ON_DEVICE bool has_queries() const { return first_query_ < Tile::facts().queries; }

  template <int kPiece = 0>
  [[gnu::always_inline]] ESPALIER_ON_DEVICE void score(Stream<Shape>& stream, int block, BlockSums& sums) const {
    if constexpr (kPiece < StreamRoom<Shape>::kKeyPieces) {
      const std::uint8_t* const queries =
          simt::shared<std::uint8_t>() + room_.queries_at() + first_query_ * room_.query_stride();
      if (kPiece == 0) sums.clear();
      const std::uint8_t* const keys = stream.next(kPiece == 0 ? block : -1);
      if (has_queries())
        sums.template score<kPiece * kPieceSixteens, kPieceSixteens>(queries, room_.query_stride(), keys,
                                                                     room_.stream.key_pairs);
      score<kPiece + 1>(stream, block, sums);
    }
  }

  // What becomes of a block's values, and its maxima and sums.
  [[gnu::always_inline]] ESPALIER_ON_DEVICE void join(const LaneQueries& queries, int block, const BlockSums& sums) {
    each<2>([&](auto h) {
      added_[h] = -1.0f;
      partial_[h] = nullptr;
      if (!has_queries()) return;
      if (tile_.in_pieces()) return put_sums(queries.query[h], block, sums, h);
      if (sums.maximum[h] == kNothing) return;
      const attention::Joined joined = attention::join(maximum_[h], sums.maximum[h]);
      kept_[h] = joined.kept;
      added_[h] = joined.added;
      sum_[h] = attention::join_sums(joined, sum_[h], sums.sum[h]);
      maximum_[h] = joined.maximum;
    });
  }
  [[gnu::always_inline]] ESPALIER_ON_DEVICE void put_sums(int query, int block, const BlockSums& sums, int h) {
    float* const to = tile_.partial(query, block);
    if (to == nullptr) return;
    const int width = 8 * room_.stream.value_sixteens;
    if (lane_column() == 0) {
      to[width] = sums.maximum[h];
      to[width + 1] = sums.sum[h];
    }
    if (sums.maximum[h] != kNothing) partial_[h] = to;
  }

  template <int kPiece = 0>
  [[gnu::always_inline]] ESPALIER_ON_DEVICE void weigh(Stream<Shape>& stream, const BlockSums& sums) {
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
  [[gnu::always_inline]] ESPALIER_ON_DEVICE void add(int h, float first, float second) {
    const int element = 8 * kEight + 2 * lane_column();
    if (tile_.in_pieces()) {
      if (partial_[h] == nullptr || element >= 8 * room_.stream.value_sixteens) return;
      partial_[h][element] = first;
      partial_[h][element + 1] = second;
      return;
    }
    if (added_[h] < 0.0f) return;
    float(&total)[4] = folded_[kEight];
    total[2 * h] = attention::join_values(kept_[h], added_[h], total[2 * h], first);
    total[2 * h + 1] = attention::join_values(kept_[h], added_[h], total[2 * h + 1], second);
  }

  [[gnu::always_inline]] ESPALIER_ON_DEVICE void finish(const LaneQueries& queries) const {
    each<2>([&](auto h) {
      const int query = queries.query[h];
      if (query >= Tile::facts().queries) return;
      const int row = Tile::row_of(query).row, head = Tile::head_of(query);
      each<Shape::kWidth / 8, 2>([&](auto n, auto i) {
        const int element = 8 * n + 2 * lane_column() + i;
        if (element < 8 * room_.stream.value_sixteens)
          attention::finish(tile_.task(), row, head, element, maximum_[h], sum_[h], folded_[n][2 * h + i]);
      });
    });
  }

  const Tile& tile_;
  const ManyRoom<Shape> room_;
  const int first_query_;
  float maximum_[2] = {kNothing, kNothing}, sum_[2] = {}, kept_[2] = {}, added_[2];
  float* partial_[2];
  float folded_[Shape::kWidth / 8][4] = {};
};

inline constexpr int kMostWarps = kManyQueries / kWarpQueries;

// Grid: [pieces][tiles] x [KV heads][parts].
template <class Shape>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(32 * kMostWarps, 1) void attend_many(AttendTensorTask task, TensorCut cut) {
  const Tile tile(task.of);
  tile.find(task.many[simt::block_x() % task.many_count], cut, simt::block_y() / cut.parts, simt::block_y() % cut.parts,
            simt::block_x() / task.many_count);
  Many<Shape>(tile).run();
}

}  // namespace espalier::cuda::tensor_attention
