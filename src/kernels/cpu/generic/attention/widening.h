// widening.h: scores and weighted values in float32, every type of stored values widened as it is read.
//
// Scores: lane = slot (of latent rows: query), a chain over the key's elements. Weighted values: lane = element, a
// chain over the block's positions in order.
#pragma once

#include "kernels/cpu/generic/attention/codec.h"
#include "kernels/cpu/generic/attention/places.h"
#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/generic/reduce.h"

namespace espalier::kernels::ESPALIER_ISA {

// Calls in the values of kG groups while their keys are read, one line behind the other: memory follows one stretch
// that goes on where it follows kG badly that take turns (AVX-512, two threads, 64 sequences of 511: 613 -> 530 us).
template <int kG>
class ValuesAhead {
 public:
  ValuesAhead(const Group* groups, int group_bytes) : group_(groups), last_(groups + kG - 1), bytes_(group_bytes) {}
  // Beside kBytes of every group's keys; a group's values are a multiple of kG times as many.
  template <int kBytes>
  void call() {
    for (int i = 0; i < kG * kBytes; i += 64) call_in(group_->values + at_ + i);
    at_ += kG * kBytes;
    if (at_ == bytes_) {
      at_ = 0;
      if (group_ != last_) ++group_;
    }
  }

 private:
  const Group *group_, *last_;
  int at_ = 0, bytes_;
};

// Positions of a block that are weighed, two by two; where a tile is masked only pairs of which something is seen.
struct WeighedPairs {
  std::uint8_t pair[kAttentionBlock / 2], seen[kAttentionBlock / 2];  // seen: 1 the first, 2 the second, 3 both
  int count = 0;
};

// Arithmetic in float32. Queries lie side by side, [query][key_dim rounded up to 16]: a fixed stride of a power of two
// would put them all into the same few sets of the first-level cache.
template <KvType kType>
struct Widening {
  static constexpr int kRows = Simd::kTileRows, kGroups = Simd::kScoreGroups;
  static constexpr int kPairGroup = 1;   // pairs of positions that are weighed together
  static constexpr bool kTiles = false;  // all queries are weighed at once
  const float* q;
  int key_width, value_width;  // rounded up to 16
  alignas(64) float p[kTileQueries][kAttentionBlock];

  void set_queries(const float* queries, int, int keys, int values) {
    q = queries;
    key_width = keys;
    value_width = values;
  }

  // Scores of kQ queries against kG groups of 16 slots, wherever they lie; those of a group go to rows of `to`. kAhead:
  // their values are called in beside the keys. kJoined: some lanes lie elsewhere.
  template <int kQ, int kG, bool kAhead, bool kJoined>
  void scores(int query, const Group* groups, float* const* to, int stride) const {
    const int padded = key_width;
    Simd::Lanes rest[kG];
    each<kG>([&](auto g) { rest[g] = Simd::lanes_from(kJoined ? groups[g].split : kSlotGroup); });
    Simd::F acc[kQ][kG];
    each<kQ, kG>([&](auto i, auto g) { acc[i][g] = Simd::zero(); });
    const float* from = q + query * padded;
    ValuesAhead<kG> ahead(groups, value_width * kSlotGroup * element_bytes(kType));
    if constexpr (kType == KvType::bf16) {
      for (int d = 0; d < padded; d += 2) {
        if constexpr (kAhead) ahead.template call<64>();
        Simd::F even[kG], odd[kG];
        each<kG>([&](auto g) {
          load_pairs(groups[g].keys + d * 32, even[g], odd[g]);
          if constexpr (kJoined) {
            Simd::F other_even, other_odd;
            load_pairs(groups[g].rest + d * 32, other_even, other_odd);
            even[g] = Simd::select(rest[g], other_even, even[g]);
            odd[g] = Simd::select(rest[g], other_odd, odd[g]);
          }
        });
        each<kQ>([&](auto i) {
          Simd::F first = Simd::set1(from[i * padded + d]), second = Simd::set1(from[i * padded + d + 1]);
          each<kG>([&](auto g) { acc[i][g] = Simd::fma(odd[g], second, Simd::fma(even[g], first, acc[i][g])); });
        });
      }
    } else {
      for (int d = 0; d < padded; ++d) {
        if constexpr (kAhead) ahead.template call<kSlotGroup * element_bytes(kType)>();
        Simd::F k[kG];
        each<kG>([&](auto g) {
          const int offset = d * kSlotGroup * element_bytes(kType);
          k[g] = Codec<kType>::load(groups[g].keys + offset);
          if constexpr (kJoined) k[g] = Simd::select(rest[g], Codec<kType>::load(groups[g].rest + offset), k[g]);
        });
        each<kQ>([&](auto i) {
          Simd::F a = Simd::set1(from[i * padded + d]);
          each<kG>([&](auto g) { acc[i][g] = Simd::fma(k[g], a, acc[i][g]); });
        });
      }
    }
    each<kQ, kG>([&](auto i, auto g) { Simd::store(to[g] + i * stride, acc[i][g]); });
  }
  static void load_pairs(const std::byte* from, Simd::F& even, Simd::F& odd) {
    const auto* pairs = reinterpret_cast<const std::uint16_t*>(from);
    even = Simd::load_bf16_even(pairs);
    odd = Simd::load_bf16_odd(pairs);
  }

  // The weights of kN queries and their sums. `vectors`: of 16 positions, an even number; what lies behind is not read
  // by weigh().
  template <int kN>
  void soften(int query, const float (*rows)[kAttentionBlock], const float* maximum, float* sum, int vectors) {
    Simd::F total[kN];
    for (int j = 0; j < kN; ++j) {
      total[j] = Simd::zero();
      for (int i = 0; i < vectors; ++i) {
        const Simd::F weight = exp2(Simd::sub(Simd::load(rows[j] + 16 * i), Simd::set1(maximum[j])));
        Simd::store(p[query + j] + 16 * i, weight);
        total[j] = Simd::add(total[j], weight);
      }
    }
    reduce_add(total, sum);
  }
  // The scale of a value row goes into its weights; sums are already taken.
  void scale_weights(int query, int at, int length, const float* scales) {
    for (int i = 0; i < length; ++i) p[query][at + i] *= scales[i];
  }
  // Moves the weights of these pairs to the front; of a position that is not seen it becomes 0.
  void gather_weights(int query, const WeighedPairs& pairs) {
    for (int i = 0; i < pairs.count; ++i)
      for (int half = 0; half < 2; ++half)
        p[query][2 * i + half] = (pairs.seen[i] >> half & 1) != 0 ? p[query][2 * pairs.pair[i] + half] : 0.0f;
  }

  // Beside each row of values, as many bytes are called in from `ahead`.
  template <int kQ, int kD, bool kAhead>
  void weigh_tile(int query, int d, const std::byte* const* rows, const std::byte* const* ahead, int count,
                  float* weighted) const {
    Simd::F acc[kQ][kD];
    each<kQ, kD>([&](auto j, auto c) { acc[j][c] = Simd::zero(); });
    for (int i = 0; i < count; ++i) {
      Simd::F v[kD];
      each<kD>([&](auto c) {
        v[c] = Codec<kType>::load(rows[i] + (d + 16 * c) * element_bytes(kType));
        if constexpr (kAhead) call_in(ahead[i] + (d + 16 * c) * element_bytes(kType));
      });
      each<kQ>([&](auto j) {
        Simd::F w = Simd::set1(p[query + j][i]);
        each<kD>([&](auto c) { acc[j][c] = Simd::fma(v[c], w, acc[j][c]); });
      });
    }
    each<kQ, kD>([&](auto j, auto c) {
      Simd::store(weighted + (query + j) * value_width + d + 16 * c, Codec<kType>::in_order(acc[j][c]));
    });
  }
  template <int kQ, bool kAhead>
  void weigh(int query, const std::byte* const* rows, const std::byte* const* ahead, int count, float* weighted) const {
    int d = 0;
    for (; d + 16 * Simd::kValueVectors <= value_width; d += 16 * Simd::kValueVectors)
      weigh_tile<kQ, Simd::kValueVectors, kAhead>(query, d, rows, ahead, count, weighted);
    for (; d < value_width; d += 16) weigh_tile<kQ, 1, kAhead>(query, d, rows, ahead, count, weighted);
  }
};

}  // namespace espalier::kernels::ESPALIER_ISA
