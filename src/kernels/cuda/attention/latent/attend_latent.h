// attend_latent.h: attention by tensor cores over latent rows (DeepSeek's absorbed form): all query heads read the same row of a
// position, whose first elements are the value too, so that a row that is read from memory once serves up to 64 queries of a block
// of threads: query heads of one token, or of some that follow one another.
//
// Of a block of positions, a warp has the scores of 16 or 32 queries against 16 or 32 positions; their maxima and weights meet in
// shared memory. Then a warp has all queries, and sixteen elements of each part of the values, whose folds are its registers.
// What a query gets of a block is summed in an order of its own: scores by ascending elements, weights of sixteen positions by
// neighbours and then by ascending sixteens, values by ascending positions; blocks fold in order. So its bits depend neither on the
// tile nor on the shape.
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/latent/latent_stream.h"
#include "kernels/cuda/simt/matrices.h"
#include "kernels/cuda/simt/multiprocessor.h"

namespace espalier::cuda::latent {

using attention::kNothing;
using kernels::simt::Simd;

// The scores of sixteen queries against some sixteens of positions, from the block's position `first` on. Half h of a thread's numbers
// is of query lane_row() + 8 * h.
template <int kGroups>
struct LatentScores {
  float x[2 * kGroups][4];
  int first;

  // f(score, position within the block) for those of half kHalf.
  template <int kHalf, class F>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void each_score(F f) {
    each<2 * kGroups, 2>([&](auto i, auto j) { f(x[i][2 * kHalf + j], first + 8 * i + 2 * lane_column() + j); });
  }
};

// The queries of one tile from `first` on.
template <class Shape>
class Latent {
 public:
  ESPALIER_ON_DEVICE Latent(const Tile& tile, int first)
      : tile_(tile), room_(tile.task().dims), first_(first), warp_(simt::thread() / 32) {}

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void run() {
    const int begin = Tile::facts().block_begin, end = Tile::facts().block_end, stride = room_.parts.query_stride();
    tile_.take_queries(at(room_.queries_at()), first_, Shape::kQueries,
                       [stride](int row, int byte) { return row * stride + place_of(byte / 16, row) + byte % 16; });
    if (simt::thread() < Shape::kQueries) fold(simt::thread()) = {0.0f, -1.0f, kNothing, 0.0f};
    Parts parts(tile_, room_, begin, end);
    parts.begin();
    for (int block = begin; block < end; ++block) {
      Scores scores[Shape::kRowTiles];
      score(parts, block, scores);
      soften(parts, block, scores);
      weigh(parts, block);
    }
    simt::meet();
    if (!tile_.in_pieces()) finish();
    if constexpr (Shape::kMayChoose) {
      if (tile_.in_pieces() && tile_.task().selection.words != nullptr) leave_out(larger(begin, end));
    }
  }

 private:
  using Parts = std::conditional_t<Shape::kKept, KeptParts<Shape>, PartsInTurns<Shape>>;
  using Scores = LatentScores<Shape::kGroups>;
  static constexpr int kTiles = Shape::kTiles, kRowTiles = Shape::kRowTiles, kGroups = Shape::kGroups,
                       kEights = Shape::kEights, kTogether = Shape::kTogether;

  ESPALIER_ON_DEVICE std::uint8_t* at(int offset) const { return simt::shared<std::uint8_t>() + offset; }
  ESPALIER_ON_DEVICE LatentFold& fold(int query) const {
    return reinterpret_cast<LatentFold*>(at(room_.folds_at()))[query];
  }
  // Of a query, by warp across, or by sixteen positions.
  ESPALIER_ON_DEVICE float* maxima(int query) const {
    return reinterpret_cast<float*>(at(room_.maxima_at())) + query * Shape::kAcross;
  }
  ESPALIER_ON_DEVICE float* sums(int query) const {
    return reinterpret_cast<float*>(at(room_.sums_at())) + query * kSixteens;
  }
  // What this warp has of the scores: queries from the sixteen first_tile() on, positions from the sixteen first_group() on.
  ESPALIER_ON_DEVICE int across() const { return warp_ % Shape::kAcross; }
  ESPALIER_ON_DEVICE int first_tile() const { return warp_ / Shape::kAcross * kRowTiles; }
  ESPALIER_ON_DEVICE int first_group() const { return across() * kGroups; }
  ESPALIER_ON_DEVICE int score_query(int tile, int half) const {
    return 16 * (first_tile() + tile) + lane_row() + 8 * half;
  }

  // --- scores ---

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void score(Parts& parts, int block, Scores (&scores)[kRowTiles]) const {
    each<kRowTiles>([&](auto tile) {
      scores[tile].first = 16 * first_group();
      each<2 * kGroups, 4>([&](auto i, auto j) { scores[tile].x[i][j] = 0.0f; });
    });
    bool seen = false;
    each<kGroups>([&](auto group) { seen = seen || Tile::is_seen(block, first_group() + group); });
    ESPALIER_UNROLL(1)
    for (int part = 0; part < room_.parts.count(); ++part) {
      const std::uint8_t* const keys = parts.keys(part, block);
      if (seen) score_part(part, keys, scores);
    }
  }
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void score_part(int part, const std::uint8_t* keys,
                                                       Scores (&scores)[kRowTiles]) const {
    const int count = room_.parts.sixteens(part), stride = room_.parts.stride(part),
              query_stride = room_.parts.query_stride(), row = lane() & 7;
    const std::uint8_t* const query =
        at(room_.queries_at()) + (16 * first_tile() + (lane() & 15)) * query_stride + part * kPartBytes;
    const std::uint8_t* const key = keys + (16 * first_group() + (lane() >> 4) * 8 + row) * stride;
    const int half_of_query = lane() >> 4, half_of_key = lane() >> 3 & 1;
    ESPALIER_UNROLL(4)
    for (int sixteen = 0; sixteen < count; ++sixteen) {
      unsigned a[kRowTiles][4];
      each<kRowTiles>([&](auto tile) {
        simt::load_matrices(a[tile], query + tile * 16 * query_stride + place_of(2 * sixteen + half_of_query, row));
      });
      each<kGroups>([&](auto group) {
        unsigned b[4];
        simt::load_matrices(b, key + group * 16 * stride + place_of(2 * sixteen + half_of_key, row));
        each<kRowTiles>([&](auto tile) {
          simt::mma_bf16(scores[tile].x[2 * group], a[tile], {b[0], b[1]});
          simt::mma_bf16(scores[tile].x[2 * group + 1], a[tile], {b[2], b[3]});
        });
      });
    }
  }

  // --- weights ---

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void soften(Parts& parts, int block, Scores (&scores)[kRowTiles]) const {
    float factor = 0.0f;
    each<kRowTiles>(
        [&](auto tile) { factor = LaneQueries{first_ + 16 * (first_tile() + tile)}.see(scores[tile], tile_, block); });
    each<kRowTiles, 2>([&](auto tile, auto half) { put_maximum(scores[tile], tile, half); });
    simt::meet();
    each<kRowTiles, 2>([&](auto tile, auto half) { put_weights(scores[tile], tile, half, factor); });
    if (simt::thread() < Shape::kQueries) join_maximum(simt::thread(), factor);
    parts.note(block + 1);
    simt::meet();
    if (simt::thread() < Shape::kQueries) join_sum(simt::thread(), block);
  }
  template <class Half>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void put_maximum(const Scores& scores, int tile, Half half) const {
    float top = kNothing;
    each<2 * kGroups, 2>([&](auto i, auto j) { top = Simd::max(top, scores.x[i][2 * half + j]); });
    top = Simd::max(top, simt::of_neighbour_xor<32>(top, 1));
    top = Simd::max(top, simt::of_neighbour_xor<32>(top, 2));
    if (lane_column() == 0) maxima(score_query(tile, half))[across()] = top;
  }
  // Of all that a query sees of the block, as an exponent of 2.
  ESPALIER_ON_DEVICE float maximum_of(int query, float factor) const {
    float top = kNothing;
    each<Shape::kAcross>([&](auto i) { top = Simd::max(top, maxima(query)[i]); });
    return top == kNothing ? kNothing : top * factor;
  }
  template <class Half>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void put_weights(const Scores& scores, int tile, Half half, float factor) const {
    const int query = score_query(tile, half);
    const float maximum = maximum_of(query, factor), less = maximum == kNothing ? 0.0f : -maximum;
    std::uint8_t* const to = at(room_.weights_at()) + query * room_.kWeightStride + 4 * lane_column();
    each<kGroups>([&](auto group) {
      float total = 0.0f;
      each<2>([&](auto i) {
        float weight[2];
        each<2>([&](auto j) {
          weight[j] = tensor_attention::weight_of(fmaf(scores.x[2 * group + i][2 * half + j], factor, less));
          total = total + weight[j];
        });
        *reinterpret_cast<unsigned*>(to + place_of(2 * (first_group() + group) + i, query)) =
            simt::two_bf16(weight[0], weight[1]);
      });
      total = total + simt::of_neighbour_xor<32>(total, 1);
      total = total + simt::of_neighbour_xor<32>(total, 2);
      if (lane_column() == 0) sums(query)[first_group() + group] = total;
    });
  }

  // --- folds; one thread has a query ---

  ESPALIER_ON_DEVICE void join_maximum(int query, float factor) const {
    LatentFold& of = fold(query);
    const float maximum = maximum_of(query, factor);
    if (tile_.in_pieces()) {
      of.maximum = maximum;
      return;
    }
    of.added = -1.0f;
    if (maximum == kNothing) return;
    const attention::Joined joined = attention::join(of.maximum, maximum);
    of.kept = joined.kept;
    of.added = joined.added;
    of.maximum = joined.maximum;
  }
  // Its weights are complete.
  ESPALIER_ON_DEVICE void join_sum(int query, int block) const {
    LatentFold& of = fold(query);
    float total = 0.0f;
    each<kSixteens>([&](auto i) { total = total + sums(query)[i]; });
    if (tile_.in_pieces()) {
      float* const to = tile_.partial(first_ + query, block);
      if (to == nullptr) return;
      to[16 * room_.parts.value_sixteens] = of.maximum;
      to[16 * room_.parts.value_sixteens + 1] = total;
    } else if (of.added >= 0.0f) {
      of.sum = attention::join_sums({of.kept, of.added, of.maximum}, of.sum, total);
    }
  }

  // --- values ---

  template <int kPass = 0>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void weigh(Parts& parts, int block) {
    if constexpr (kPass < Shape::kPasses) {
      if (kPass * kTogether < room_.parts.value_count()) weigh_pass<kPass>(parts, block);
      parts.release(kPass, block);
      weigh<kPass + 1>(parts, block);
    }
  }
  // Sixteen elements of each of the pass's parts.
  template <int kPass>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void weigh_pass(Parts& parts, int block) {
    const std::uint8_t* values[kTogether];
    int strides[kTogether];
    each<kTogether>([&](auto i) {
      values[i] = parts.values(kPass * kTogether + i);
      strides[i] = room_.parts.stride(smaller(kPass * kTogether + i, room_.parts.count() - 1));
    });
    if (!has<kPass>(0)) return;
    const int row = lane() & 7, position = lane() & 15, half = lane() >> 4;
    each<kTogether>([&](auto i) { values[i] += position * strides[i] + place_of(2 * warp_ + half, row); });
    const std::uint8_t* const weights = at(room_.weights_at()) + position * room_.kWeightStride;
    float of_block[kTiles][kEights][4];
    each<kTiles, kEights>([&](auto tile, auto n) { each<4>([&](auto j) { of_block[tile][n][j] = 0.0f; }); });
    ESPALIER_UNROLL(1)
    for (int sixteen = 0; sixteen < kSixteens; ++sixteen) {
      if (!Tile::is_seen(block, sixteen)) continue;
      unsigned b[kTogether][4];
      each<kTogether>([&](auto i) {
        if (has<kPass>(i)) simt::load_matrices_turned(b[i], values[i] + sixteen * 16 * strides[i]);
      });
      each<kTiles>([&](auto tile) {
        unsigned a[4];
        simt::load_matrices(a, weights + tile * 16 * room_.kWeightStride + place_of(2 * sixteen + half, row));
        each<kTogether>([&](auto i) {
          if (!has<kPass>(i)) return;
          simt::mma_bf16(of_block[tile][2 * i], a, {b[i][0], b[i][1]});
          simt::mma_bf16(of_block[tile][2 * i + 1], a, {b[i][2], b[i][3]});
        });
      });
    }
    const int query = simt::kept(lane_row());  // one register, not one for each query
    each<kTiles, 2>([&](auto tile, auto h) { add<kPass, tile, h>(query + 16 * tile + 8 * h, block, of_block[tile]); });
  }
  // Whether the warp has elements of the values in this part of a pass.
  template <int kPass>
  ESPALIER_ON_DEVICE bool has(int part) const {
    return (kPass * kTogether + part) * kPartSixteens + warp_ < room_.parts.value_sixteens;
  }
  // The first of a thread's two elements.
  template <int kPass>
  ESPALIER_ON_DEVICE int element_of(int eight) const {
    return 16 * ((kPass * kTogether + eight / 2) * kPartSixteens + warp_) + 8 * (eight % 2) + 2 * lane_column();
  }
  template <int kPass, int kTile, int kHalf>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void add(int query, int block, const float (&of_block)[kEights][4]) {
    const LatentFold& of = fold(query);
    if (tile_.in_pieces()) {
      float* const to = of.maximum == kNothing ? nullptr : tile_.partial(first_ + query, block);
      if (to == nullptr) return;
      each<kEights, 2>([&](auto n, auto j) {
        if (has<kPass>(n / 2)) to[element_of<kPass>(n) + j] = of_block[n][2 * kHalf + j];
      });
      return;
    }
    const float kept = of.kept, added = of.added;
    if (added < 0.0f) return;
    each<kEights, 2>([&](auto n, auto j) {
      float& x = folded_[kTile][kPass * kEights + n][2 * kHalf + j];
      x = attention::join_values(kept, added, x, of_block[n][2 * kHalf + j]);
    });
  }

  // The piece's blocks from one on, of which the row has no chosen positions.
  ESPALIER_ON_DEVICE void leave_out(int from) const {
    const AttendTask& t = tile_.task();
    const int blocks = t.pieces * t.blocks_each, left = Tile::facts().queries - first_;
    const int piece = simt::block_x() / (simt::blocks_x() / t.pieces), end = (piece + 1) * t.blocks_each;
    for (int block = from; block < smaller(end, blocks); ++block)
      for (int query = simt::thread(); query < smaller(Shape::kQueries, left); query += simt::threads())
        attention::partial_of(t, Tile::facts().first_row, block,
                              Tile::head_of(first_ + query))[16 * room_.parts.value_sixteens] = kNothing;
  }

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void finish() {
    each<kTiles, 2>([&](auto tile, auto half) {
      const int of_tile = 16 * tile + lane_row() + 8 * half, query = first_ + of_tile;
      if (query >= Tile::facts().queries) return;
      const int row = Tile::row_of(query).row, head = Tile::head_of(query);
      const float maximum = fold(of_tile).maximum, sum = fold(of_tile).sum;
      each<Shape::kPasses, kEights>([&](auto pass, auto n) {
        if (!has<pass>(n / 2)) return;
        each<2>([&](auto j) {
          attention::finish(tile_.task(), row, head, element_of<pass>(n) + j, maximum, sum,
                            folded_[tile][pass * kEights + n][2 * half + j]);
        });
      });
    });
  }

  const Tile& tile_;
  const LatentRoom<Shape> room_;
  const int first_, warp_;
  float folded_[kTiles][Shape::kPasses * kEights][4] = {};
};

// Grid: [pieces][tiles] x [KV heads][parts][query_parts]: a tile has more queries than a block of threads takes, perhaps.
template <class Shape>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kThreads, 1) void attend_latent(AttendTask task, const AttendedTile* tiles,
                                                                      int tile_count, TensorCut cut, int query_parts) {
  if constexpr (Shape::kLeastShared <= simt::kSharedBytes) {
    const Tile tile(task);
    const int part = simt::block_y() / query_parts, first = simt::block_y() % query_parts * Shape::kQueries;
    tile.find(tiles[simt::block_x() % tile_count], cut, part / cut.parts, part % cut.parts,
              simt::block_x() / tile_count);
    if constexpr (Shape::kMayChoose) {
      const Choice choice(task, LatentRoom<Shape>::choice_at());
      if (choice.is_there()) choice.begin(simt::block_x() / tile_count);
    }
    if (first < Tile::facts().queries) Latent<Shape>(tile, first).run();
  }
}

}  // namespace espalier::cuda::latent
