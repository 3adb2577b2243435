// attend_tensor_few.h: attention by tensor cores of tiles with up to sixteen queries, where memory is what it waits for: each warp
// takes other blocks of positions, which come to memory of its own; the blocks of a round are folded in order.
//
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cuda/attention/tensor/attend_tensor_block.h"

namespace espalier::cuda::tensor_attention {

// What a warp's block gave a query, and the factors that it is folded with.
struct FewSums {
  float maximum, sum, kept, added;  // added < 0: nothing is seen of the block
};

// A block's shared memory: facts; queries [16][key elements and 16 bytes]; slots [warps]; sums [warps][16], then folds [16]; values
// of blocks [warps][queries][elements], then folded ones [queries][elements]; rings [warps]. Where the work is in pieces, no sums
// and values.
template <class Shape>
struct FewRoom {
  StreamRoom<Shape> stream;
  int warps, queries;
  bool in_pieces;
  ESPALIER_EITHER FewRoom(const AttendTask& t, int of_warps, int most_queries)
      : stream(t.dims), warps(of_warps), queries(most_queries), in_pieces(t.pieces > 1) {}
  ESPALIER_EITHER int width() const { return 8 * stream.value_sixteens; }
  ESPALIER_EITHER int query_stride() const { return 4 * stream.key_pairs + 16; }
  ESPALIER_EITHER static constexpr int queries_at() { return static_cast<int>(sizeof(TileFacts)); }
  ESPALIER_EITHER int table_at() const { return queries_at() + kWarpQueries * query_stride(); }
  ESPALIER_EITHER int sums_at() const { return table_at() + warps * Stream<Shape>::kTableBytes; }
  ESPALIER_EITHER int values_at() const {
    return sums_at() + (in_pieces ? 0 : (warps + 1) * kWarpQueries * static_cast<int>(sizeof(FewSums)));
  }
  ESPALIER_EITHER int rings_at() const { return values_at() + (in_pieces ? 0 : (warps + 1) * queries * width() * 4); }
  ESPALIER_EITHER int bytes() const { return rings_at() + warps * stream.bytes(); }
};

// One tile.
template <class Shape>
class Few {
 public:
  ESPALIER_ON_DEVICE Few(const Tile& tile, const FewRoom<Shape>& room)
      : tile_(tile), room_(room), warp_(simt::thread() / 32) {}

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void run() {
    std::uint8_t* const memory = simt::shared<std::uint8_t>();
    const int begin = Tile::facts().block_begin, end = Tile::facts().block_end;
    tile_.take_queries(memory + room_.queries_at(), 0, kWarpQueries, RowsApart{room_.query_stride()});
    if (!tile_.in_pieces()) clear();
    simt::meet();
    Stream<Shape> stream(tile_, room_.table_at() + warp_ * Stream<Shape>::kTableBytes,
                         room_.rings_at() + warp_ * room_.stream.bytes(), begin + warp_, end, room_.warps);
    stream.begin();
    const LaneQueries queries{0};
    for (int first = begin; first < end; first += room_.warps) {
      if (first + warp_ < end) compute(stream, queries, first + warp_);
      if (!tile_.in_pieces()) fold(smaller(room_.warps, end - first));
    }
    if (!tile_.in_pieces()) finish();
  }

 private:
  static constexpr int kEights = Shape::kWidth / 8;

  ESPALIER_ON_DEVICE static FewSums* at_sums(int offset) {
    return reinterpret_cast<FewSums*>(simt::shared<std::uint8_t>() + offset);
  }
  // Of a warp's block; of number `warps`: what is folded.
  ESPALIER_ON_DEVICE FewSums& sums_of(int warp, int query) const {
    return at_sums(room_.sums_at())[warp * kWarpQueries + query];
  }
  ESPALIER_ON_DEVICE float* values_of(int warp, int query) const {
    return reinterpret_cast<float*>(simt::shared<std::uint8_t>() + room_.values_at()) +
           (warp * room_.queries + query) * room_.width();
  }
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void clear() const {
    for (int query = simt::thread(); query < Tile::facts().queries; query += simt::threads())
      sums_of(room_.warps, query) = {kNothing, 0.0f, 0.0f, 0.0f};
    for (int i = simt::thread(); i < Tile::facts().queries * room_.width(); i += simt::threads())
      values_of(room_.warps, 0)[i] = 0.0f;
  }

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void compute(Stream<Shape>& stream, const LaneQueries& queries,
                                                    int block) const {
    BlockSums sums;
    sums.clear();
    score(stream, block, sums);
    sums.soften(queries.see(sums, tile_, block));
    float values[kEights][4];
    each<kEights, 4>([&](auto n, auto i) { values[n][i] = 0.0f; });
    weigh(stream, block, sums, values);
    each<2>([&](auto h) {
      if (queries.query(h) < Tile::facts().queries) put(queries.query(h), h, block, sums, values);
    });
  }
  template <int kPiece = 0>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void score(Stream<Shape>& stream, int block, BlockSums& sums) const {
    if constexpr (kPiece < kSixteens) {
      const std::uint8_t* const keys = stream.next(kPiece == 0 ? block : -1);
      if (Tile::is_seen(block, kPiece))
        sums.template score<kPiece, 1>(simt::shared<std::uint8_t>() + room_.queries_at(), room_.query_stride(), keys,
                                       room_.stream.key_pairs);
      score<kPiece + 1>(stream, block, sums);
    }
  }
  template <int kPiece = 0>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void weigh(Stream<Shape>& stream, int block, const BlockSums& sums,
                                                  float (&values)[kEights][4]) const {
    if constexpr (kPiece < kSixteens) {
      const std::uint8_t* const from = stream.next(-1);
      if (Tile::is_seen(block, kPiece)) sums.template weigh<kPiece, 1>(from, room_.stream.value_stride(), values);
      weigh<kPiece + 1>(stream, block, sums, values);
    }
  }
  // A query's part of a block.
  template <class Half>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void put(int query, Half h, int block, const BlockSums& sums,
                                                const float (&values)[kEights][4]) const {
    float* const to = tile_.in_pieces() ? tile_.partial(query, block) : values_of(warp_, query);
    if (to == nullptr) return;
    if (lane_column() == 0) {
      if (tile_.in_pieces()) {
        to[room_.width()] = sums.maximum[h];
        to[room_.width() + 1] = sums.sum[h];
      } else {
        sums_of(warp_, query).maximum = sums.maximum[h];
        sums_of(warp_, query).sum = sums.sum[h];
      }
    }
    if (sums.maximum[h] == kNothing) return;
    each<kEights, 2>([&](auto n, auto i) {
      const int element = 8 * n + 2 * lane_column() + i;
      if (element < room_.width()) to[element] = values[n][2 * h + i];
    });
  }

  // The blocks of so many warps, in order.
  ESPALIER_ON_DEVICE void fold(int count) const {
    simt::meet();
    for (int query = simt::thread(); query < Tile::facts().queries; query += simt::threads()) {
      FewSums so_far = sums_of(room_.warps, query);
      ESPALIER_UNROLL(1)
      for (int warp = 0; warp < count; ++warp) {
        FewSums& of_block = sums_of(warp, query);
        of_block.added = -1.0f;
        if (of_block.maximum == kNothing) continue;
        const attention::Joined joined = attention::join(so_far.maximum, of_block.maximum);
        of_block.kept = joined.kept;
        of_block.added = joined.added;
        so_far.sum = attention::join_sums(joined, so_far.sum, of_block.sum);
        so_far.maximum = joined.maximum;
      }
      sums_of(room_.warps, query) = so_far;
    }
    simt::meet();
    const int elements = Tile::facts().queries * room_.width();
    for (int i = simt::thread(); i < elements; i += simt::threads()) {
      const int query = i / room_.width();
      float folded = values_of(room_.warps, 0)[i];
      ESPALIER_UNROLL(1)
      for (int warp = 0; warp < count; ++warp) {
        const FewSums& of_block = sums_of(warp, query);
        if (of_block.added >= 0.0f)
          folded = attention::join_values(of_block.kept, of_block.added, folded, values_of(warp, 0)[i]);
      }
      values_of(room_.warps, 0)[i] = folded;
    }
    simt::meet();  // before others' blocks come to where these lie
  }

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void finish() const {
    const int elements = Tile::facts().queries * room_.width();
    for (int i = simt::thread(); i < elements; i += simt::threads()) {
      const int query = i / room_.width();
      const FewSums& of = sums_of(room_.warps, query);
      attention::finish(tile_.task(), Tile::row_of(query).row, Tile::head_of(query), i % room_.width(), of.maximum,
                        of.sum, values_of(room_.warps, 0)[i]);
    }
  }

  const Tile& tile_;
  const FewRoom<Shape>& room_;
  const int warp_;
};

inline constexpr int kFewWarps = 4;

// Grid: [pieces][tiles] x [KV heads][parts].
template <class Shape>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(32 * kFewWarps, 2) void attend_few(AttendTensorTask task, TensorCut cut,
                                                                         FewRoom<Shape> room) {
  const Tile tile(task.of);
  tile.find(task.few[simt::block_x() % task.few_count], cut, simt::block_y() / cut.parts, simt::block_y() % cut.parts,
            simt::block_x() / task.few_count);
  Few<Shape>(tile, room).run();
}

}  // namespace espalier::cuda::tensor_attention
