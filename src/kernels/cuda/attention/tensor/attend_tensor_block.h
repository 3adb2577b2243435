// attend_tensor_block.h: what sixteen queries get of a block of positions, by the tensor cores of one warp.
//
// Scores are [16 queries][128 positions]: neighbour 4 g + t of 32 has those of queries g and g + 8, of each sixteen positions the
// positions 4 t to 4 t + 3. They become weights where they are, in bf16, the first operand of the product with values, whose
// positions within sixteen are therefore taken in the order 0, 2, .. 14, 1, 3, .. 15. Every sum is in an order that follows from
// the position within the block alone; so is what a query gets, whoever else is in the tile.
// Threads: 32 neighbours together. Fails: never.
#pragma once

#include "kernels/cuda/attention/tensor/attend_tensor_scores.h"
#include "kernels/cuda/attention/tensor/attend_tensor_stream.h"

namespace espalier::cuda::tensor_attention {

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

  // f(score, position within the block) for those of query kHalf of this thread.
  template <int kHalf, class F>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void each_score(F f) {
    each<2 * kSixteens, 2>([&](auto i, auto j) { f(scores_[i][2 * kHalf + j], position_of(i, j)); });
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
  // stream has them: a position has `stride` - 16 bytes of elements, others of `out` stay as they are.
  template <int kFirst, int kCount, int kEights>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE void weigh(const std::uint8_t* values, int stride,
                                                  float (&out)[kEights][4]) const {
    const std::uint8_t* const from = values + (lane() & 15) * stride + (lane() >> 4) * 16;
    ESPALIER_UNROLL(8)
    for (int i = 0; i < kCount; ++i) {
      ESPALIER_UNROLL(16)
      for (int n = 0; n < kEights / 2; ++n) {
        if (n * 32 >= stride - 16) continue;
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

}  // namespace espalier::cuda::tensor_attention
