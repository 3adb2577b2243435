// attention.h: the queries of one tile against blocks of positions, keys and values read in place as stored.
//
// Scores: lane = slot, a chain over head_dim. Weighted values: lane = element, a chain over the block's positions in
// order. Positions that a query may not see have score -inf, so weight 0, which changes neither sum. Blocks without any
// visible position are not folded. How scores and weighted values are multiplied is the Arithmetic: Widening (float32,
// every type of stored values) here, dot products of bf16 pairs in avx512/attention_bf16.cpp. Source: online softmax
// (FlashAttention), with blocks at absolute positions.
#pragma once

#include "kernels/cpu/generic/call_in.h"
#include "kernels/cpu/generic/each.h"
#include "kernels/cpu/generic/exponential.h"
#include "kernels/cpu/generic/reduce.h"
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
  // Loaded values lie as it is cheapest to widen them; sums of them are put in order at the end.
  static Simd::F in_order(Simd::F a) {
    if constexpr (kType == KvType::bf16) return Simd::bf16_in_order(a);
    return a;
  }
};

inline constexpr int kBlockVectors = kAttentionBlock / 16;

struct Group {  // of 16 slots, of which the lanes [lane, lane + length) are the positions [at, at + length) of a block
  const std::byte *keys, *values;
  Slot slot;  // the first one
  int lane, length, at;
  // Where a sequence moves on to another place, that begins in the lane where the old one ends: the lanes from `split`
  // on lie in another group. Null: all lie in this one.
  const std::byte *rest, *rest_values;
  Slot rest_slot;
  int split;
  bool whole() const { return length == kSlotGroup; }
};

inline void call_in(const std::byte* from, int bytes) {
  for (int at = 0; at < bytes; at += 64) call_in(from + at);
}

// Calls in the values of kG groups while their keys are read, one line behind the other: memory follows one stretch
// that goes on where it follows kG badly that take turns (AVX-512, two threads, 64 sequences of 511: 613 -> 530 us).
template <int kG>
class ValuesAhead {
 public:
  ValuesAhead(const Group* groups, int group_bytes) : group_(groups), bytes_(group_bytes) {}
  // Beside kBytes of every group's keys, of which a group has a multiple of kG times as many.
  template <int kBytes>
  void call() {
    for (int i = 0; i < kG * kBytes; i += 64) call_in(group_->values + at_ + i);
    at_ += kG * kBytes;
    if (at_ == bytes_) {
      at_ = 0;
      ++group_;
    }
  }

 private:
  const Group* group_;
  int at_ = 0, bytes_;
};

// Arithmetic in float32. Queries lie side by side, [query][head_dim rounded up to 16]: a fixed stride of a power of two
// would put them all into the same few sets of the first-level cache.
template <KvType kType>
struct Widening {
  static constexpr int kRows = Simd::kTileRows, kGroups = Simd::kScoreGroups;
  const float* q;
  int padded;
  alignas(64) float p[kTileQueries][kAttentionBlock];

  void set_queries(const float* queries, int, int width) {
    q = queries;
    padded = width;
  }

  // Scores of kQ queries against kG groups of 16 slots, wherever they lie; those of a group go to rows of `to`. kAhead:
  // their values are called in beside the keys. kJoined: some lanes lie elsewhere.
  template <int kQ, int kG, bool kAhead, bool kJoined>
  void scores(int query, const Group* groups, float* const* to, int stride) const {
    Simd::Lanes rest[kG];
    each<kG>([&](auto g) { rest[g] = Simd::lanes_from(kJoined ? groups[g].split : kSlotGroup); });
    Simd::F acc[kQ][kG];
    each<kQ, kG>([&](auto i, auto g) { acc[i][g] = Simd::zero(); });
    const float* from = q + query * padded;
    ValuesAhead<kG> ahead(groups, padded * kSlotGroup * element_bytes(kType));
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
      Simd::store(weighted + (query + j) * padded + d + 16 * c, Codec<kType>::in_order(acc[j][c]));
    });
  }
  template <int kQ, bool kAhead>
  void weigh(int query, const std::byte* const* rows, const std::byte* const* ahead, int count, float* weighted) const {
    int d = 0;
    for (; d + 16 * Simd::kValueVectors <= padded; d += 16 * Simd::kValueVectors)
      weigh_tile<kQ, Simd::kValueVectors, kAhead>(query, d, rows, ahead, count, weighted);
    for (; d < padded; d += 16) weigh_tile<kQ, 1, kAhead>(query, d, rows, ahead, count, weighted);
  }
};

struct Stretch {  // positions of a block whose slots follow one another within a segment
  Slot slot;
  int at, length;
};

struct Located {  // the slots of a block
  std::int64_t start = -1;
  int group_count = 0, stretch_count = 0, count = 0;  // count: positions of the block that are read
  Group groups[kAttentionBlock];
  Stretch stretches[kAttentionBlock];
};

struct Walk {  // over the extents of a span, in ascending order of positions
  const AttentionSpan& span;
  int run = 0;
  std::int64_t start = 0;  // of the run
};

template <KvType kType, class Arithmetic>
struct Blocks {  // of one tile
  static constexpr float kLog2e = 1.44269504088896340736f;

  const AttentionTask& t;
  int queries, padded;                              // rows * heads; head_dim rounded up to 16
  alignas(64) float q[kTileQueries * kMaxHeadDim];  // times scale * log2(e): scores are exponents of 2
  alignas(64) float scores[kTileQueries][kAttentionBlock];
  alignas(64) float weighted[kTileQueries * kMaxHeadDim];
  alignas(64) float maximum[kTileQueries], sum[kTileQueries];  // of the block at hand
  Arithmetic arithmetic;
  alignas(64) float aside[Arithmetic::kRows][kAttentionBlock];  // scores of groups that the block has only a part of
  Located located[2];
  Located *here = located, *next = located + 1;      // the block at hand and the one after it
  const std::byte* rows[kAttentionBlock + 1];        // of values
  const std::byte* keys_ahead[kAttentionBlock + 1];  // of the next block, called in beside the rows
  Walk walk{t.span};

  explicit Blocks(const AttentionTask& task)
      : t(task), queries(task.row_count * task.heads), padded(padded_head(task.head_dim)) {
    const float factor = t.scale * kLog2e;
    for (int i = 0; i < queries; ++i) {
      const float* from = t.q + t.rows[i / t.heads].row * t.q_stride + (t.head_begin + i % t.heads) * t.head_dim;
      float* to = q + i * padded;
      for (int d = 0; d < t.head_dim; ++d) to[d] = from[d] * factor;
      for (int d = t.head_dim; d < padded; ++d) to[d] = 0.0f;
    }
    arithmetic.set_queries(q, queries, padded);
    for (int i = queries; i < kTileQueries; ++i) maximum[i] = sum[i] = 0.0f;  // lanes of the folds' vectors
  }

  // The block at hand and the one after it, after the tile's last one that of the span that follows; blocks are asked
  // for in ascending order.
  void locate(int block) {
    Located* const before = here;
    here = next;
    next = before;
    if (here->start != start_of(block)) {  // the first one, whose keys perhaps nothing called in
      locate(block, walk, *here);
      for (int g = 0; g < here->group_count; ++g)
        call_in(here->groups[g].keys, padded * kSlotGroup * element_bytes(kType));
    }
    next->count = next->group_count = 0;
    next->start = -1;
    if (block + 1 < t.span.block_end) {
      locate(block + 1, walk, *next);
    } else if (t.then.runs && few_queries()) {
      Walk after{t.then};
      locate(t.then.block_begin, after, *next);
    }
  }
  static std::int64_t start_of(int block) { return static_cast<std::int64_t>(block) * kAttentionBlock; }

  void locate(int block, Walk& w, Located& to) {
    const KvRun* const runs = w.span.runs;
    to.start = start_of(block);
    const std::int64_t left = w.span.position_end - to.start;
    to.count = left < kAttentionBlock ? static_cast<int>(left) : kAttentionBlock;
    to.stretch_count = to.group_count = 0;
    for (int at = 0; at < to.count;) {
      while (to.start + at >= w.start + runs[w.run].length) w.start += runs[w.run++].length;
      const std::int64_t done = to.start + at - w.start;
      const Slot slot = runs[w.run].start + static_cast<Slot>(done);
      int length = kSegmentSlots - slot % kSegmentSlots;
      if (runs[w.run].length - done < length) length = static_cast<int>(runs[w.run].length - done);
      if (to.count - at < length) length = to.count - at;
      to.stretches[to.stretch_count++] = {slot, at, length};
      add_groups(to, w.span.kv_head, slot, at, length);
      at += length;
    }
  }

  void add_groups(Located& to, int kv_head, Slot slot, int at, int length) {
    const std::size_t group_bytes = static_cast<std::size_t>(padded) * kSlotGroup * element_bytes(kType);
    const std::size_t segment = segment_offset(t.kv, kv_head, slot);
    for (const int end = at + length; at < end;) {
      const int lane = slot % kSlotGroup, rest = kSlotGroup - lane, taken = rest < end - at ? rest : end - at;
      const std::size_t offset = segment + static_cast<std::size_t>(slot % kSegmentSlots / kSlotGroup) * group_bytes;
      const std::byte *keys = t.kv.keys + offset, *values = t.kv.values + offset;
      if (!joins_last(to, keys, values, slot, taken))
        to.groups[to.group_count++] = {keys, values, slot - lane, lane, taken, at, nullptr, nullptr, 0, kSlotGroup};
      slot += taken;
      at += taken;
    }
  }

  // A place that begins in the lane where the last group ends fills it up: the two are computed as one.
  bool joins_last(Located& to, const std::byte* keys, const std::byte* values, Slot slot, int length) const {
    if (to.group_count == 0) return false;
    Group& last = to.groups[to.group_count - 1];
    const int lane = slot % kSlotGroup;
    if (last.rest || last.lane + last.length != lane) return false;
    last.length += length;
    if (last.keys == keys) return true;
    last.rest = keys;
    last.rest_values = values;
    last.rest_slot = slot - lane;
    last.split = lane;
    call_in(keys, padded * kSlotGroup * element_bytes(kType));
    return true;
  }

  template <int kQ, int kG, bool kAhead, bool kJoined = false>
  void score_groups(int query, const Group* group) {
    float* to[kG];
    for (int g = 0; g < kG; ++g) to[g] = group[g].whole() ? &scores[query][group[g].at] : &aside[0][kSlotGroup * g];
    arithmetic.template scores<kQ, kG, kAhead, kJoined>(query, group, to, kAttentionBlock);
    for (int g = 0; g < kG; ++g) finish_group<kQ>(query, group[g], to[g]);
  }
  template <int kQ>
  void finish_group(int query, const Group& group, float* found) {
    for (int i = 0; (has_scales(kType) || !group.whole()) && i < kQ; ++i, found += kAttentionBlock) {
      if constexpr (has_scales(kType)) {
        const float* scales = t.kv.key_scales + t.span.kv_head * t.kv.head_scales;
        Simd::F factor = Simd::load(scales + group.slot);
        if (group.rest)
          factor = Simd::select(Simd::lanes_from(group.split), Simd::load(scales + group.rest_slot), factor);
        Simd::store(found, Simd::mul(Simd::load(found), factor));
      }
      if (!group.whole())
        __builtin_memcpy(&scores[query + i][group.at], found + group.lane,
                         static_cast<std::size_t>(group.length) * sizeof(float));
    }
  }

  template <int kQ, bool kAhead>
  void score(int query) {
    constexpr int kG = Arithmetic::kGroups;
    for (int i = 0; i < here->group_count;) {
      const Group* group = here->groups + i;
      const bool together = i + kG <= here->group_count && none_joined(group, kG);
      if (group->rest)
        score_joined<kQ, kAhead>(query, group);
      else if (together)
        score_groups<kQ, kG, kAhead>(query, group);
      else
        score_groups<kQ, 1, kAhead>(query, group);
      i += together ? kG : 1;
    }
  }
  static bool none_joined(const Group* groups, int count) {
    for (int i = 0; i < count; ++i)
      if (groups[i].rest) return false;
    return true;
  }
  template <int kQ, bool kAhead>
  void score_joined(int query, const Group* group) {
    const int row_bytes = padded * element_bytes(kType), end = group->lane + group->length;
    if (kAhead) call_in(group->rest_values + group->split * row_bytes, (end - group->split) * row_bytes);
    score_groups<kQ, 1, kAhead, true>(query, group);
  }

  // Scores -> weights, their maximum and sum.
  template <int kN>
  void soften(int query) {
    const int vectors = (here->count + 31) / 32 * 2;
    Simd::F top[kN];
    for (int j = 0; j < kN; ++j) {
      float* row = scores[query + j];
      hide(query + j, row, 16 * vectors);
      top[j] = Simd::load(row);
      for (int i = 1; i < vectors; ++i) top[j] = Simd::max(top[j], Simd::load(row + 16 * i));
    }
    reduce_max(top, maximum + query);
    float finite[kN];  // a query that sees nothing of the block has weights of 0
    for (int j = 0; j < kN; ++j) finite[j] = maximum[query + j] > -3.0e38f ? maximum[query + j] : -3.0e38f;
    arithmetic.template soften<kN>(query, scores + query, finite, sum + query, vectors);
  }

  void soften_all() {
    int query = 0;
    for (; query + 4 <= queries; query += 4) soften<4>(query);
    for (; query + 3 <= queries; query += 3) soften<3>(query);
    for (; query < queries; ++query) soften<1>(query);
  }

  void hide(int query, float* row, int length) const {
    const std::int64_t position = t.rows[query / t.heads].position;
    const std::int64_t last = position - here->start;  // visible: first..last
    const std::int64_t first = t.window > 0 ? last - t.window + 1 : 0;
    for (int i = static_cast<int>(last < 0 ? 0 : last + 1); i < length; ++i) row[i] = -__builtin_inff();
    for (int i = 0; i < first && i < length; ++i) row[i] = -__builtin_inff();
  }

  template <int kQ>
  void score_or_weigh(bool weigh, int query) {
    const bool last = query + kQ == queries;
    if (!weigh)
      last ? score<kQ, true>(query) : score<kQ, false>(query);
    else if (last && few_queries())
      arithmetic.template weigh<kQ, true>(query, rows, keys_ahead, here->count, weighted);
    else
      arithmetic.template weigh<kQ, false>(query, rows, rows, here->count, weighted);
  }
  // All queries, as many at a time as the registers take. While the last of them are computed, memory brings what comes
  // next: the block's values beside the scores, the next block's keys beside the weighted values of few queries (many
  // are bound by arithmetic).
  void all_queries(bool weigh) {
    int query = 0;
    constexpr int kMost = Arithmetic::kRows;
    for (; query + kMost <= queries; query += kMost) score_or_weigh<kMost>(weigh, query);
    if constexpr (kMost > 4)
      for (; query + 4 <= queries; query += 4) score_or_weigh<4>(weigh, query);
    if constexpr (kMost > 2) {
      for (; query + 3 <= queries; query += 3) score_or_weigh<3>(weigh, query);
      for (; query + 2 <= queries; query += 2) score_or_weigh<2>(weigh, query);
    }
    for (; query < queries; ++query) score_or_weigh<1>(weigh, query);
  }
  // Asking for keys ahead pays where one or two passes over the queries read a block (measured on AVX2).
  bool few_queries() const { return queries <= 8; }

  void find_values() {
    const std::size_t row_bytes = static_cast<std::size_t>(padded) * element_bytes(kType);
    for (int i = 0; i < here->stretch_count; ++i) {
      const Stretch& s = here->stretches[i];
      const std::byte* first = t.kv.values + segment_offset(t.kv, t.span.kv_head, s.slot) +
                               static_cast<std::size_t>(s.slot % kSegmentSlots) * row_bytes;
      for (int j = 0; j < s.length; ++j) rows[s.at + j] = first + static_cast<std::size_t>(j) * row_bytes;
    }
    rows[here->count] = rows[here->count - 1];  // for arithmetic that takes positions in pairs: its weight is 0
  }
  // A sixteenth of a group's keys beside each position; what the block has no positions for, at once.
  void find_keys_ahead() {
    const int part = padded * element_bytes(kType);
    int i = 0;
    for (int g = 0; g < next->group_count; ++g)
      for (int j = 0; j < kSlotGroup; ++j) {
        const std::byte* const keys =
            next->groups[g].keys + static_cast<std::size_t>(j) * static_cast<std::size_t>(part);
        if (i < here->count)
          keys_ahead[i++] = keys;
        else
          call_in(keys, part);
      }
    for (; i < here->count; ++i) keys_ahead[i] = rows[i];
    keys_ahead[here->count] = rows[here->count];
  }

  void scale_weights() {
    for (int i = 0; i < here->stretch_count; ++i) {
      const Stretch& s = here->stretches[i];
      const float* scales = t.kv.value_scales + t.span.kv_head * t.kv.head_scales + s.slot;
      for (int query = 0; query < queries; ++query) arithmetic.scale_weights(query, s.at, s.length, scales);
    }
  }

  void compute(int block) {
    locate(block);
    all_queries(false);
    soften_all();
    if constexpr (has_scales(kType)) scale_weights();
    find_values();
    if (few_queries()) find_keys_ahead();
    all_queries(true);
  }
};

// The running results of a tile's queries. Folding the blocks 0, 1, ... in order gives the same bits whoever computed
// them and whatever else is in the tile: every lane is one query.
struct Folds {
  alignas(64) float acc[kTileQueries * kMaxHeadDim];
  alignas(64) float maximum[kTileQueries], sum[kTileQueries];

  Folds() {
    for (int i = 0; i < kTileQueries; ++i) {
      maximum[i] = -__builtin_inff();
      sum[i] = 0.0f;
    }
  }

  void add(int queries, int padded, const float* weighted, const float* block_maximum, const float* block_sum) {
    alignas(64) float old_factor[kTileQueries], new_factor[kTileQueries];
    for (int i = 0; i < queries; i += 16) {
      const Simd::F none = Simd::set1(-3.0e38f);  // in place of -inf, so that differences stay numbers
      const Simd::F before = Simd::max(Simd::load(maximum + i), none),
                    now = Simd::max(Simd::load(block_maximum + i), none);
      const Simd::F top = Simd::max(before, now);
      const Simd::F kept = exp2(Simd::sub(before, top)), added = exp2(Simd::sub(now, top));
      Simd::store(old_factor + i, kept);
      Simd::store(new_factor + i, added);
      Simd::store(sum + i, Simd::fma(Simd::load(block_sum + i), added, Simd::mul(Simd::load(sum + i), kept)));
      Simd::store(maximum + i, Simd::max(Simd::load(maximum + i), Simd::load(block_maximum + i)));
    }
    for (int query = 0; query < queries; ++query) {
      if (block_maximum[query] == -__builtin_inff()) continue;  // nothing visible: nothing changes
      float* to = acc + query * padded;
      const float* from = weighted + query * padded;
      const Simd::F kept = Simd::set1(old_factor[query]), added = Simd::set1(new_factor[query]);
      const bool first = old_factor[query] == 0.0f;
      for (int d = 0; d < padded; d += 16)
        Simd::store(to + d,
                    Simd::fma(Simd::load(from + d), added, first ? Simd::zero() : Simd::mul(Simd::load(to + d), kept)));
    }
  }

  template <class Task>
  void take(const Task& t, int padded) {
    for (int query = 0; query < t.row_count * t.heads; ++query) {
      const float* from = t.states.of(t.rows[query / t.heads].row, t.head_begin + query % t.heads);
      __builtin_memcpy(acc + query * padded, from, static_cast<std::size_t>(padded) * sizeof(float));
      maximum[query] = from[padded];
      sum[query] = from[padded + 1];
    }
  }
  template <class Task>
  void end(const Task& t, int padded) const {
    for (int query = 0; query < t.row_count * t.heads; ++query) {
      const int row = t.rows[query / t.heads].row, head = t.head_begin + query % t.heads;
      const float* from = acc + query * padded;
      if (t.end_in_state) {
        float* to = t.states.of(row, head);
        __builtin_memcpy(to, from, static_cast<std::size_t>(padded) * sizeof(float));
        to[padded] = maximum[query];
        to[padded + 1] = sum[query];
        continue;
      }
      float* to = t.out + row * t.out_stride + head * t.head_dim;
      const Simd::F total = Simd::set1(sum[query]);
      for (int d = 0; d < t.head_dim; d += 16)
        Simd::store_n(to + d, Simd::div(Simd::load(from + d), total), t.head_dim - d < 16 ? t.head_dim - d : 16);
    }
  }
};

template <KvType kType, class Arithmetic>
void attend_with(const AttentionTask& t) {
  Blocks<kType, Arithmetic> blocks(t);
  const int padded = blocks.padded;
  if (t.partials) {
    float* out = t.partials;
    for (int block = t.span.block_begin; block < t.span.block_end; ++block) {
      blocks.compute(block);
      for (int query = 0; query < blocks.queries; ++query, out += padded + 2) {
        __builtin_memcpy(out, blocks.weighted + query * padded, static_cast<std::size_t>(padded) * sizeof(float));
        out[padded] = blocks.maximum[query];
        out[padded + 1] = blocks.sum[query];
      }
    }
    return;
  }
  Folds folds;
  if (t.begin_in_state) folds.take(t, padded);
  for (int block = t.span.block_begin; block < t.span.block_end; ++block) {
    blocks.compute(block);
    folds.add(blocks.queries, padded, blocks.weighted, blocks.maximum, blocks.sum);
  }
  folds.end(t, padded);
}

inline void attend(const AttentionTask& t) {
  switch (t.kv.type) {
    case KvType::f32:
      return attend_with<KvType::f32, Widening<KvType::f32>>(t);
    case KvType::bf16:
      return attend_with<KvType::bf16, Widening<KvType::bf16>>(t);
    case KvType::f16:
      return attend_with<KvType::f16, Widening<KvType::f16>>(t);
    case KvType::i8:
      return attend_with<KvType::i8, Widening<KvType::i8>>(t);
    case KvType::f8_e4m3:
      return attend_with<KvType::f8_e4m3, Widening<KvType::f8_e4m3>>(t);
    case KvType::f8_e5m2:
      return attend_with<KvType::f8_e5m2, Widening<KvType::f8_e5m2>>(t);
  }
}

inline void merge(const AttentionMerge& m) {
  const int queries = m.row_count * m.heads, padded = padded_head(m.head_dim);
  alignas(64) float weighted[kTileQueries * kMaxHeadDim];
  alignas(64) float maximum[kTileQueries] = {}, sum[kTileQueries] = {};
  Folds folds;
  if (m.begin_in_state) folds.take(m, padded);
  const float* from = m.partials;
  for (int block = 0; block < m.blocks; ++block) {
    for (int query = 0; query < queries; ++query, from += padded + 2) {
      __builtin_memcpy(weighted + query * padded, from, static_cast<std::size_t>(padded) * sizeof(float));
      maximum[query] = from[padded];
      sum[query] = from[padded + 1];
    }
    folds.add(queries, padded, weighted, maximum, sum);
  }
  folds.end(m, padded);
}

}  // namespace espalier::kernels::ESPALIER_ISA
