// attend_tensor_block.h: what sixteen queries get of a block of positions, by the tensor cores of one warp.
//
// Scores are [16 queries][128 positions]: neighbour 4 g + t of 32 has those of queries g and g + 8, of each sixteen positions the
// positions 4 t to 4 t + 3. They become weights where they are, in bf16, the first operand of the product with values, whose
// positions within sixteen are therefore taken in the order 0, 2, .. 14, 1, 3, .. 15. Every sum is in an order that follows from
// the position within the block alone; so is what a query gets, whoever else is in the tile.
// Threads: 32 neighbours together. Fails: never.
#pragma once

#include "kernels/cuda/attend_tensor_stream.h"
//
#include "kernels/cpu/generic/hyperbolic.h"

namespace espalier::cuda::tensor_attention {

using kernels::simt::Simd;

inline constexpr int kWarpQueries = 16, kSixteens = kAttentionBlock / 16;

// 2^x of x <= 0, or hardly more: relative error below 3e-6; 0 up to -127.
ESPALIER_ON_DEVICE inline float weight_of(float x) {
  constexpr float kWhole = 12582912.0f;  // beside it, floats are whole numbers
  x = Simd::max(x, -127.0f);
  const float shifted = x + kWhole, f = x - (shifted - kWhole);
  float r = 9.58287560579874e-3f;  // ln(2)^n / n!, nudged to a minimax fit on [-0.5, 0.5]
  r = fmaf(r, f, 5.590648312302288e-2f);
  r = fmaf(r, f, 2.402409857790876e-1f);
  r = fmaf(r, f, 6.931241867388708e-1f);
  r = fmaf(r, f, 1.0f);
  return kernels::simt::float_of_bits(kernels::simt::bits_of_float(r) + (kernels::simt::bits_of_float(shifted) << 23));
}

// Which neighbour of 32 this is.
ESPALIER_ON_DEVICE inline int lane() {
  return simt::thread() % 32;
}
ESPALIER_ON_DEVICE inline int lane_row() {
  return lane() / 4;
}
ESPALIER_ON_DEVICE inline int lane_column() {
  return lane() % 4;
}

// One block of positions; half h of a thread's numbers is of query lane_row() + 8 * h. What others do with its arrays must be in
// their own code (ESPALIER_IN_PLACE), since they are registers.
class BlockSums {
 public:
  float maximum[2], sum[2];  // of a query: of scores, as exponents of 2; of weights

  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void clear() {
    each<2 * kSixteens, 4>([&](auto i, auto j) { scores_[i][j] = 0.0f; });
  }
  // Scores of 16 * kCount positions from the sixteen kFirst on. queries: of 16, [query][stride bytes]; keys as a stream has
  // them.
  template <int kFirst, int kCount>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void score(const std::uint8_t* queries, int stride, const std::uint8_t* keys,
                                                  int pairs) {
    const std::uint8_t* query = queries + (lane() & 15) * stride + (lane() >> 4) * 16;
    const int t = lane_column();
    const std::uint8_t* key = keys + t * 64 + ((2 * lane_row()) ^ ((t & 2) << 2)) * 4;
    ESPALIER_UNROLL(2)
    for (int pair = 0; pair < pairs; pair += 8, query += 32, key += 8 * 64) {
      unsigned a[4];
      simt::load_matrices(a, query);
      ESPALIER_UNROLL(4)
      for (int i = 0; i < kCount; ++i) {
        const Two low = *reinterpret_cast<const Two*>(key + i * pairs * 64),
                  high = *reinterpret_cast<const Two*>(key + i * pairs * 64 + 4 * 64);
        simt::mma_bf16(scores_[2 * (kFirst + i)], a, {low.a, high.a});
        simt::mma_bf16(scores_[2 * (kFirst + i) + 1], a, {low.b, high.b});
      }
    }
  }

  // The scores of query kHalf of this thread: capped, and with what distance costs; as exponents of 2. away: from the query's
  // position to the block's first one. slope: of the query's head.
  template <int kHalf>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void bend(const ScoreRule& rule, int away, float slope) {
    const bool capped = rule.cap != 0.0f;
    const float before = capped ? rule.scale / rule.cap : rule.scale, behind = capped ? rule.cap * kLog2e : kLog2e;
    each<2 * kSixteens, 2>([&](auto i, auto j) {
      float& x = scores_[i][2 * kHalf + j];
      x = x * before;
      if (capped) x = kernels::simt::tanh(x);
      x = fmaf(static_cast<float>(away + position_of(i, j)), slope * kLog2e, x * behind);
    });
  }
  // It sees first .. last of the block.
  template <int kHalf>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void hide(int first, int last) {
    each<2 * kSixteens, 2>([&](auto i, auto j) {
      const int p = position_of(i, j);
      if (p < first || p > last) scores_[i][2 * kHalf + j] = kNothing;
    });
  }
  // Scores times the factor, exponents of 2, become weights.
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void soften(float factor) {
    make_weights<0>(factor);
    make_weights<1>(factor);
    each<kSixteens, 4>([&](auto i, auto j) {
      const float(&two)[4] = scores_[2 * i + j / 2];
      weights_[i][j] = simt::two_bf16(two[2 * (j % 2)], two[2 * (j % 2) + 1]);
    });
  }

  // out[8 elements][..] += weights * values of the sixteens of positions from kFirst on; values: of the first of them, as a
  // stream has them.
  template <int kFirst, int kCount, int kEights>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void weigh(const std::uint8_t* values, int stride,
                                                  float (&out)[kEights][4]) const {
    const std::uint8_t* const from = values + (lane() & 15) * stride + (lane() >> 4) * 16;
    ESPALIER_UNROLL(8)
    for (int i = 0; i < kCount; ++i) {
      ESPALIER_UNROLL(16)
      for (int n = 0; n < kEights / 2; ++n) {
        unsigned b[4];
        simt::load_matrices_turned(b, from + i * 16 * stride + n * 32);
        simt::mma_bf16(out[2 * n], weights_[kFirst + i], {b[0], b[1]});
        simt::mma_bf16(out[2 * n + 1], weights_[kFirst + i], {b[2], b[3]});
      }
    }
  }

 private:
  // A pair of elements of two positions that lie side by side.
  struct alignas(8) Two {
    unsigned a, b;
  };
  // Of score [i][j]: within the block.
  ESPALIER_ON_DEVICE static int position_of(int i, int j) { return i / 2 * 16 + 4 * lane_column() + i % 2 + 2 * j; }
  // Of query kHalf of this thread.
  template <int kHalf>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void make_weights(float factor) {
    float top = kNothing;
    each<2 * kSixteens, 2>([&](auto i, auto j) { top = Simd::max(top, scores_[i][2 * kHalf + j]); });
    top = Simd::max(top, simt::of_neighbour_xor<32>(top, 1));
    top = Simd::max(top, simt::of_neighbour_xor<32>(top, 2));
    maximum[kHalf] = top == kNothing ? kNothing : top * factor;
    const float less = top == kNothing ? 0.0f : -maximum[kHalf];
    float total = 0.0f;
    each<2 * kSixteens, 2>([&](auto i, auto j) {
      float& x = scores_[i][2 * kHalf + j];
      x = weight_of(fmaf(x, factor, less));
      total = total + x;
    });
    total = total + simt::of_neighbour_xor<32>(total, 1);
    sum[kHalf] = total + simt::of_neighbour_xor<32>(total, 2);
  }

  float scores_[2 * kSixteens][4];
  unsigned weights_[kSixteens][4];
};

// A thread's two queries, from the tile's query `first` on.
struct LaneQueries {
  int first;
  ESPALIER_ON_DEVICE int query(int h) const { return first + lane_row() + 8 * h; }
  // By what they see of a block.
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void soften(BlockSums& sums, const Tile& tile, int block) const {
    const TileFacts& f = Tile::facts();
    const ScoreRule& rule = tile.task().score;
    const int base = block * kAttentionBlock;
    float factor = rule.scale * kLog2e;
    if (rule.cap != 0.0f || rule.slopes != nullptr) {
      each<2>([&](auto h) {
        const int known = smaller(query(h), f.queries - 1);
        sums.template bend<h>(rule, base - Tile::row_of(known).position,
                              rule.slopes != nullptr ? rule.slopes[Tile::head_of(known)] : 0.0f);
      });
      factor = 1.0f;
    }
    if (f.all_from > base || base + kAttentionBlock - 1 > f.all_to)
      each<2>([&](auto h) {
        const QueryRow& row = Tile::row_of(smaller(query(h), f.queries - 1));
        sums.template hide<h>(row.first - base, row.last - base);
      });
    sums.soften(factor);
  }
};

}  // namespace espalier::cuda::tensor_attention
