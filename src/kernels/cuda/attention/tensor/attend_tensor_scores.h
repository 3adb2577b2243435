// attend_tensor_scores.h: what becomes of scores before they are weights, in attention by tensor cores: what a query sees of a block,
// caps, and what distance costs.
//
// A warp's scores are [16 queries][..]: neighbour 4 g + t of 32 has some of queries g and g + 8.
// Threads: any; 32 neighbours have the same sixteen queries. Fails: never.
#pragma once

#include "kernels/cuda/attention/tensor/attend_tensor_tile.h"
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

// A product of query and key as an exponent of 2: capped, and with what distance costs.
struct Bend {
  bool capped;
  float before, behind;
  ESPALIER_ON_DEVICE explicit Bend(const ScoreRule& rule)
      : capped(rule.cap != 0.0f),
        before(capped ? rule.scale / rule.cap : rule.scale),
        behind(capped ? rule.cap * kLog2e : kLog2e) {}
  // away: from the query's position to the key's. slope: of the query's head.
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE float of(float x, int away, float slope) const {
    x = x * before;
    if (capped) x = kernels::simt::tanh(x);
    return fmaf(static_cast<float>(away), slope * kLog2e, x * behind);
  }
};

// A thread's two queries, from the tile's query `first` on.
struct LaneQueries {
  int first;
  ESPALIER_ON_DEVICE int query(int h) const { return first + lane_row() + 8 * h; }
  // Hides what they do not see of a block, and bends scores where the rule says so. Scores have each_score<h>(). Returns what
  // scores are still to be multiplied with, to be exponents of 2.
  template <class Scores>
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE float see(Scores& scores, const Tile& tile, int block) const {
    const TileFacts& f = Tile::facts();
    const ScoreRule& rule = tile.task().score;
    const int base = block * kAttentionBlock;
    float factor = rule.scale * kLog2e;
    if (rule.cap != 0.0f || rule.slopes != nullptr) {
      const Bend bend(rule);
      each<2>([&](auto h) {
        const int known = smaller(query(h), f.queries - 1), away = base - Tile::row_of(known).position;
        const float slope = rule.slopes != nullptr ? rule.slopes[Tile::head_of(known)] : 0.0f;
        scores.template each_score<h>([&](float& x, int p) { x = bend.of(x, away + p, slope); });
      });
      factor = 1.0f;
    }
    if (f.all_from > base || base + kAttentionBlock - 1 > f.all_to)
      each<2>([&](auto h) {
        const QueryRow& row = Tile::row_of(smaller(query(h), f.queries - 1));
        const int from = row.first - base, to = row.last - base;
        scores.template each_score<h>([&](float& x, int p) {
          if (p < from || p > to) x = kNothing;
        });
      });
    return factor;
  }
};

}  // namespace espalier::cuda::tensor_attention
