// latent_room.h: where what a block of threads needs lies in shared memory, in attention by tensor cores over latent rows
// (attend_latent.h).
//
// Latent rows are cut into parts of 128 elements (eight times sixteen, the last part may have fewer). In shared memory a part is
// [128 positions][256 bytes, or 128 where it has at most 64 elements]; queries are [query][elements, a multiple of 64], weights
// [query][128 positions], all bf16. Within 128 bytes the pieces of 16 change places by the row they are of, so that a warp that
// reads a piece of eight rows meets different banks.
// Threads: any. Fails: never.
#pragma once

#include "kernels/cuda/attention/tensor/attend_tensor_scores.h"

namespace espalier::cuda::latent {

using tensor_attention::kSixteens;
using tensor_attention::lane;
using tensor_attention::lane_column;
using tensor_attention::lane_row;
using tensor_attention::LaneQueries;
using tensor_attention::larger;
using tensor_attention::smaller;
using tensor_attention::Tile;
using tensor_attention::TileFacts;

inline constexpr int kWarps = 8, kThreads = 32 * kWarps;
inline constexpr int kPartSixteens = 8, kPartBytes = kPartSixteens * 32;  // of a position
inline constexpr int kMostParts = 4;                                      // of values
inline constexpr int kChoiceBytes = 640;                                  // of shared memory, for chosen positions

// How a block of threads divides a block of positions. kTilesOf: sixteen queries each, of which it has 1, 2 or 4. kKept: what comes of
// a block of positions stays until it is weighed, and warps ask for the next one's place by place; else parts come one after the
// other, twice. It changes no bits.
template <int kTilesOf, bool kKeptOf>
struct LatentShape {
  static constexpr bool kKept = kKeptOf;
  static constexpr int kTiles = kTilesOf, kQueries = 16 * kTiles;
  static constexpr int kRowTiles = kTiles < 2 ? 1 : 2;    // of a warp's scores
  static constexpr int kGroups = kTiles < 4 ? 1 : 2;      // sixteens of positions of a warp's scores
  static constexpr int kAcross = kSixteens / kGroups;     // warps that share queries
  static constexpr int kTogether = kKept ? 2 : 1;         // parts that are weighed together
  static constexpr int kPasses = kMostParts / kTogether;  // until all are
  static constexpr int kEights = 2 * kTogether;           // of a thread's elements, in a pass
  static constexpr bool kMayChoose = kTiles < 4;          // has registers left for a choice of positions
  // It is for multiprocessors with so much shared memory at least; where all of an architecture have less, it has no code.
  static constexpr std::size_t kLeastShared = kKept && kTiles == 4 ? 128 * 1024 : 0;
  static_assert(kTiles / kRowTiles * kAcross == kWarps);
};

// Where piece `piece` of sixteen bytes of a row goes within it.
ESPALIER_EITHER constexpr int place_of(int piece, int row) {
  return (piece ^ (row & 7)) * 16;
}

// The parts of a layer's rows.
struct LatentParts {
  int key_sixteens, value_sixteens;
  ESPALIER_EITHER explicit LatentParts(const HeadDims& dims)
      : key_sixteens(padded_head(dims.key) / 16), value_sixteens(padded_head(dims.value) / 16) {}
  ESPALIER_EITHER int count() const { return (key_sixteens + kPartSixteens - 1) / kPartSixteens; }
  ESPALIER_EITHER int value_count() const { return (value_sixteens + kPartSixteens - 1) / kPartSixteens; }
  ESPALIER_EITHER int sixteens(int part) const {
    const int left = key_sixteens - part * kPartSixteens;
    return left < kPartSixteens ? left : kPartSixteens;
  }
  ESPALIER_EITHER int stride(int part) const { return sixteens(part) <= 4 ? kPartBytes / 2 : kPartBytes; }
  ESPALIER_EITHER int query_stride() const { return (key_sixteens + 3) / 4 * 128; }
  ESPALIER_EITHER int bytes(int part) const { return kAttentionBlock * stride(part); }
};

// Of a query: the factors that a block is folded with (added < 0: nothing is seen of it), and where the fold stands. Where the work is
// in pieces, the maximum and the sum are the block's.
struct LatentFold {
  float kept, added, maximum, sum;
};

// Facts; folds [queries]; maxima of scores [queries][warps across]; sums of weights [queries][sixteens]; where positions lie, of two
// blocks; which are chosen (latent_choice.h); queries; weights; parts. The weights lie where the last part does if that has no values.
template <class Shape>
struct LatentRoom {
  LatentParts parts;
  ESPALIER_EITHER explicit LatentRoom(const HeadDims& dims) : parts(dims) {}
  static constexpr int kTableBytes = kAttentionBlock * 8, kWeightStride = kAttentionBlock * 2;
  ESPALIER_EITHER static constexpr int folds_at() { return static_cast<int>(sizeof(TileFacts)); }
  ESPALIER_EITHER static constexpr int maxima_at() {
    return folds_at() + Shape::kQueries * static_cast<int>(sizeof(LatentFold));
  }
  ESPALIER_EITHER static constexpr int sums_at() { return maxima_at() + Shape::kQueries * Shape::kAcross * 4; }
  ESPALIER_EITHER static constexpr int tables_at() { return sums_at() + Shape::kQueries * kSixteens * 4; }
  ESPALIER_EITHER static constexpr int choice_at() { return tables_at() + 2 * kTableBytes; }
  ESPALIER_EITHER static constexpr int queries_at() { return choice_at() + kChoiceBytes; }
  ESPALIER_EITHER int parts_at() const { return queries_at() + Shape::kQueries * parts.query_stride(); }
  ESPALIER_EITHER int slot_bytes() const { return parts.bytes(0); }  // of a part, but the last
  ESPALIER_EITHER bool is_overlaid() const { return Shape::kKept && parts.count() > parts.value_count(); }
  // Parts that warps ask for by themselves.
  ESPALIER_EITHER int own_parts() const { return parts.count() - (is_overlaid() ? 1 : 0); }
  ESPALIER_EITHER int part_at(int part) const { return parts_at() + part * slot_bytes(); }
  ESPALIER_EITHER int parts_end() const {
    if (!Shape::kKept) return part_at(2);
    return part_at(parts.count() - 1) + parts.bytes(parts.count() - 1);
  }
  ESPALIER_EITHER int weights_at() const { return is_overlaid() ? part_at(parts.count() - 1) : parts_end(); }
  ESPALIER_EITHER int bytes() const { return parts_end() + (is_overlaid() ? 0 : Shape::kQueries * kWeightStride); }
};

}  // namespace espalier::cuda::latent
