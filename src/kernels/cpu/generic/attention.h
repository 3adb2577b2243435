// attention.h: the queries of one tile against blocks of positions, keys and values read in place as stored.
//
// Scores: lane = slot, a chain over head_dim. Weighted values: lane = element, a chain over the block's positions in
// order. Positions that a query may not see have score -inf, so weight 0, which changes neither sum. Blocks without any
// visible position are not folded. Source: online softmax (FlashAttention), with blocks at absolute positions.
#pragma once

#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/table.h"

namespace espalier::kernels::ESPALIER_ISA {

template <KvType kType>
struct Codec {  // 16 stored values at p, as floats
  static Simd::F load(const std::byte* p) {
    if constexpr (kType == KvType::f32) return Simd::load(reinterpret_cast<const float*>(p));
    if constexpr (kType == KvType::bf16) return Simd::load_bf16(reinterpret_cast<const std::uint16_t*>(p));
    if constexpr (kType == KvType::f16) return Simd::load_f16(reinterpret_cast<const std::uint16_t*>(p));
    if constexpr (kType == KvType::i8) return Simd::load_i8(reinterpret_cast<const std::int8_t*>(p));
    if constexpr (kType == KvType::f8_e4m3) return Simd::load_e4m3(reinterpret_cast<const std::uint8_t*>(p));
    if constexpr (kType == KvType::f8_e5m2) return Simd::load_e5m2(reinterpret_cast<const std::uint8_t*>(p));
  }
};

struct Blocks {  // of one tile
  static constexpr float kLog2e = 1.44269504088896340736f;

  const AttentionTask& t;
  int queries, padded;                             // rows * heads; head_dim rounded up to 16
  alignas(64) float q[kTileQueries][kMaxHeadDim];  // times scale * log2(e): scores are exponents of 2
  alignas(64) float p[kTileQueries][kAttentionBlock];
  alignas(64) float weighted[kTileQueries][kMaxHeadDim];
  float maximum[kTileQueries], sum[kTileQueries];  // of the block at hand
  Slot slots[kAttentionBlock];                     // of the block's positions
  int count;                                       // positions of the block that exist
  std::int64_t block_start;
  int run = 0;  // where the walk over extents stands
  std::int64_t run_start = 0;

  explicit Blocks(const AttentionTask& task)
      : t(task), queries(task.rows * task.heads), padded(padded_head(task.head_dim)) {
    const float factor = t.scale * kLog2e;
    for (int i = 0; i < queries; ++i) {
      const float* from = t.q + (i / t.heads) * t.q_stride + (t.head_begin + i % t.heads) * t.head_dim;
      for (int d = 0; d < t.head_dim; ++d) q[i][d] = from[d] * factor;
      for (int d = t.head_dim; d < padded; ++d) q[i][d] = 0.0f;
    }
  }

  std::int64_t position(int query) const { return t.first_position + query / t.heads; }
  void locate(int block) {
    block_start = static_cast<std::int64_t>(block) * kAttentionBlock;
    std::int64_t end = t.first_position + t.rows;
    count = end - block_start < kAttentionBlock ? static_cast<int>(end - block_start) : kAttentionBlock;
    for (int i = 0; i < count; ++i) {
      while (block_start + i >= run_start + t.runs[run].length) run_start += t.runs[run++].length;
      slots[i] = t.runs[run].start + static_cast<Slot>(block_start + i - run_start);
    }
  }

  // Scores of kQ queries against kG groups of 16 slots that follow one another.
  template <KvType kType, int kQ, int kG>
  void score_groups(int query, Slot group, float (&out)[kQ][kG * kSlotGroup]) const {
    const std::size_t group_bytes = static_cast<std::size_t>(padded) * kSlotGroup * element_bytes(kType);
    const std::byte* keys = t.kv.keys + segment_offset(t.kv, t.kv_head, group * kSlotGroup) +
                            static_cast<std::size_t>(group % (kSegmentSlots / kSlotGroup)) * group_bytes;
    Simd::F acc[kQ][kG];
    for (auto& row : acc)
      for (auto& a : row) a = Simd::zero();
    if constexpr (kType == KvType::bf16) {
      for (int d = 0; d < padded; d += 2) {
        Simd::F even[kG], odd[kG];
        for (int g = 0; g < kG; ++g)
          Simd::load_bf16_pairs(reinterpret_cast<const std::uint16_t*>(keys + g * group_bytes + d * 32), even[g],
                                odd[g]);
        for (int i = 0; i < kQ; ++i) {
          Simd::F first = Simd::set1(q[query + i][d]), second = Simd::set1(q[query + i][d + 1]);
          for (int g = 0; g < kG; ++g) acc[i][g] = Simd::fma(odd[g], second, Simd::fma(even[g], first, acc[i][g]));
        }
      }
    } else {
      for (int d = 0; d < padded; ++d) {
        Simd::F k[kG];
        for (int g = 0; g < kG; ++g)
          k[g] = Codec<kType>::load(keys + g * group_bytes + d * kSlotGroup * element_bytes(kType));
        for (int i = 0; i < kQ; ++i) {
          Simd::F a = Simd::set1(q[query + i][d]);
          for (int g = 0; g < kG; ++g) acc[i][g] = Simd::fma(k[g], a, acc[i][g]);
        }
      }
    }
    for (int i = 0; i < kQ; ++i)
      for (int g = 0; g < kG; ++g) {
        if constexpr (has_scales(kType))
          acc[i][g] = Simd::mul(acc[i][g],
                                Simd::load(t.kv.key_scales + t.kv_head * t.kv.head_scales + (group + g) * kSlotGroup));
        Simd::store(out[i] + g * kSlotGroup, acc[i][g]);
      }
  }

  // Copies the lanes [from, from + length) of computed scores to the block's positions [at, ...).
  template <KvType kType, int kQ, int kG>
  void score_run(int query, Slot start, int length, int at) {
    alignas(64) float scores[kQ][kG * kSlotGroup];
    score_groups<kType, kQ, kG>(query, start / kSlotGroup, scores);
    for (int i = 0; i < kQ; ++i)
      __builtin_memcpy(&p[query + i][at], &scores[i][start % kSlotGroup],
                       static_cast<std::size_t>(length) * sizeof(float));
  }

  template <KvType kType, int kQ>
  void score_queries(int query) {
    for (int at = 0; at < count;) {
      int length = 1;  // slots that follow one another in one segment
      while (at + length < count && slots[at + length] == slots[at] + length && slots[at + length] % kSegmentSlots != 0)
        ++length;
      for (int done = 0; done < length;) {
        const Slot start = slots[at + done];
        const int lane = start % kSlotGroup, left = length - done;
        const int groups = (lane + left + kSlotGroup - 1) / kSlotGroup;
        int taken = kSlotGroup - lane;
        if (groups >= Simd::kScoreGroups) {
          taken += (Simd::kScoreGroups - 1) * kSlotGroup;
          score_run<kType, kQ, Simd::kScoreGroups>(query, start, taken < left ? taken : left, at + done);
        } else {
          score_run<kType, kQ, 1>(query, start, taken < left ? taken : left, at + done);
        }
        done += taken < left ? taken : left;
      }
      at += length;
    }
  }

  void soften(int query) {  // scores -> weights, their maximum and sum
    float* row = p[query];
    const std::int64_t last = position(query) - block_start;  // visible: first..last
    const std::int64_t first = t.window > 0 ? last - t.window + 1 : 0;
    for (int i = 0; i < kAttentionBlock; ++i)
      if (i > last || i < first) row[i] = -__builtin_inff();
    Simd::F v[4];
    for (int i = 0; i < 4; ++i) v[i] = Simd::load(row + 16 * i);
    maximum[query] = Simd::reduce_max(Simd::max(Simd::max(v[0], v[1]), Simd::max(v[2], v[3])));
    if (maximum[query] == -__builtin_inff()) {
      sum[query] = 0.0f;
      for (int i = 0; i < 4; ++i) Simd::store(row + 16 * i, Simd::zero());
      return;
    }
    for (int i = 0; i < 4; ++i) {
      v[i] = exp2(Simd::sub(v[i], Simd::set1(maximum[query])));
      Simd::store(row + 16 * i, v[i]);
    }
    sum[query] = Simd::reduce_add(Simd::add(Simd::add(v[0], v[1]), Simd::add(v[2], v[3])));
  }

  template <KvType kType, int kQ, int kD>
  void weigh_tile(int query, int d, const std::byte* const* rows) {
    Simd::F acc[kQ][kD];
    for (auto& row : acc)
      for (auto& a : row) a = Simd::zero();
    for (int i = 0; i < count; ++i) {
      Simd::F v[kD];
      for (int c = 0; c < kD; ++c) v[c] = Codec<kType>::load(rows[i] + (d + 16 * c) * element_bytes(kType));
      for (int j = 0; j < kQ; ++j) {
        Simd::F w = Simd::set1(p[query + j][i]);
        for (int c = 0; c < kD; ++c) acc[j][c] = Simd::fma(v[c], w, acc[j][c]);
      }
    }
    for (int j = 0; j < kQ; ++j)
      for (int c = 0; c < kD; ++c) Simd::store(&weighted[query + j][d + 16 * c], acc[j][c]);
  }

  template <KvType kType, int kQ>
  void weigh_queries(int query, const std::byte* const* rows) {
    int d = 0;
    for (; d + 16 * Simd::kValueVectors <= padded; d += 16 * Simd::kValueVectors)
      weigh_tile<kType, kQ, Simd::kValueVectors>(query, d, rows);
    for (; d < padded; d += 16) weigh_tile<kType, kQ, 1>(query, d, rows);
  }

  template <KvType kType>
  void weigh() {
    const std::byte* rows[kAttentionBlock];
    for (int i = 0; i < count; ++i)
      rows[i] =
          t.kv.values + segment_offset(t.kv, t.kv_head, slots[i]) +
          static_cast<std::size_t>(slots[i] % kSegmentSlots) * static_cast<std::size_t>(padded) * element_bytes(kType);
    if constexpr (has_scales(kType)) {  // the scale of a value row goes into its weights; sums are already taken
      const float* scales = t.kv.value_scales + t.kv_head * t.kv.head_scales;
      for (int query = 0; query < queries; ++query)
        for (int i = 0; i < count; ++i) p[query][i] *= scales[slots[i]];
    }
    int query = 0;
    for (; query + Simd::kTileRows <= queries; query += Simd::kTileRows)
      weigh_queries<kType, Simd::kTileRows>(query, rows);
    for (; query < queries; ++query) weigh_queries<kType, 1>(query, rows);
  }

  template <KvType kType>
  void compute(int block) {
    locate(block);
    int query = 0;
    for (; query + Simd::kTileRows <= queries; query += Simd::kTileRows) score_queries<kType, Simd::kTileRows>(query);
    for (; query < queries; ++query) score_queries<kType, 1>(query);
    for (query = 0; query < queries; ++query) soften(query);
    weigh<kType>();
  }
};

// The running result of one query. Folding the blocks 0, 1, ... in order gives the same bits whoever computed them.
struct Fold {
  float maximum = -__builtin_inff(), sum = 0.0f;

  void add(float* acc, const float* weighted, float block_maximum, float block_sum, int padded) {
    if (block_maximum == -__builtin_inff()) return;
    const float top = block_maximum > maximum ? block_maximum : maximum;
    const Simd::F old_factor = exp2(Simd::set1(maximum - top)), new_factor = exp2(Simd::set1(block_maximum - top));
    for (int d = 0; d < padded; d += 16) {
      Simd::F kept = maximum == -__builtin_inff() ? Simd::zero() : Simd::mul(Simd::load(acc + d), old_factor);
      Simd::store(acc + d, Simd::fma(Simd::load(weighted + d), new_factor, kept));
    }
    float scaled[2][16];
    Simd::store(scaled[0], old_factor);
    Simd::store(scaled[1], new_factor);
    sum = sum * scaled[0][0] + block_sum * scaled[1][0];
    maximum = top;
  }

  void write(const float* acc, float* out, int head_dim) const {
    const Simd::F total = Simd::set1(sum);
    for (int d = 0; d < head_dim; d += 16) {
      int n = head_dim - d < 16 ? head_dim - d : 16;
      Simd::store_n(out + d, Simd::div(Simd::load(acc + d), total), n);
    }
  }
};

template <KvType kType>
void attend_as(const AttentionTask& t) {
  Blocks blocks(t);
  if (t.partials) {
    float* out = t.partials;
    for (int block = t.block_begin; block < t.block_end; ++block) {
      blocks.compute<kType>(block);
      for (int query = 0; query < blocks.queries; ++query, out += blocks.padded + 2) {
        __builtin_memcpy(out, blocks.weighted[query], static_cast<std::size_t>(blocks.padded) * sizeof(float));
        out[blocks.padded] = blocks.maximum[query];
        out[blocks.padded + 1] = blocks.sum[query];
      }
    }
    return;
  }
  Fold folds[kTileQueries];
  alignas(64) float acc[kTileQueries][kMaxHeadDim];
  for (int block = t.block_begin; block < t.block_end; ++block) {
    blocks.compute<kType>(block);
    for (int query = 0; query < blocks.queries; ++query)
      folds[query].add(acc[query], blocks.weighted[query], blocks.maximum[query], blocks.sum[query], blocks.padded);
  }
  for (int query = 0; query < blocks.queries; ++query)
    folds[query].write(acc[query],
                       t.out + (query / t.heads) * t.out_stride + (t.head_begin + query % t.heads) * t.head_dim,
                       t.head_dim);
}

inline void attend(const AttentionTask& t) {
  switch (t.kv.type) {
    case KvType::f32:
      return attend_as<KvType::f32>(t);
    case KvType::bf16:
      return attend_as<KvType::bf16>(t);
    case KvType::f16:
      return attend_as<KvType::f16>(t);
    case KvType::i8:
      return attend_as<KvType::i8>(t);
    case KvType::f8_e4m3:
      return attend_as<KvType::f8_e4m3>(t);
    case KvType::f8_e5m2:
      return attend_as<KvType::f8_e5m2>(t);
  }
}

inline void merge(const AttentionMerge& m) {
  const int queries = m.rows * m.heads, padded = padded_head(m.head_dim), stride = padded + 2;
  for (int query = 0; query < queries; ++query) {
    Fold fold;
    alignas(64) float acc[kMaxHeadDim];
    for (int block = 0; block < m.blocks; ++block) {
      const float* from = m.partials + (static_cast<std::int64_t>(block) * queries + query) * stride;
      fold.add(acc, from, from[padded], from[padded + 1], padded);
    }
    fold.write(acc, m.out + (query / m.heads) * m.out_stride + (m.head_begin + query % m.heads) * m.head_dim,
               m.head_dim);
  }
}

}  // namespace espalier::kernels::ESPALIER_ISA
