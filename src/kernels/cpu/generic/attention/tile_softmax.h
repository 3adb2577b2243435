// tile_softmax.h: what every form of attention does with a tile's scores: those of a block become weights, and weights
// times values the block's part of the result.
//
// Positions that a query may not see have score -inf, so weight 0, which changes neither sum; where a tile is masked,
// rows of values of which no query sees anything are not read. Source: online softmax (FlashAttention), with blocks at
// absolute positions.
#pragma once

#include "kernels/cpu/generic/attention/widening.h"
#include "kernels/cpu/generic/hyperbolic.h"

namespace espalier::kernels::ESPALIER_ISA {

// A tile's softmax, whatever its keys and values look like.
template <KvType kType, class Arithmetic>
struct TileSoftmax {
  static constexpr float kLog2e = 1.44269504088896340736f;

  const AttentionTask& t;
  int queries, key_width, value_width;                      // rows * heads; dims rounded up to 16
  alignas(64) float q[kTileQueries * kMaxKeyDim];           // times query_factor(), side by side
  alignas(64) float scores[kTileQueries][kAttentionBlock];  // exponents of 2
  alignas(64) float weighted[kTileQueries * kMaxValueDim];
  alignas(64) float maximum[kTileQueries], sum[kTileQueries];  // of the block at hand
  Arithmetic arithmetic;
  Located located[2];
  Located *here = located, *next = located + 1;      // the block at hand and the one after it
  const std::byte* rows[kAttentionBlock + 1];        // of values
  const std::byte* keys_ahead[kAttentionBlock + 1];  // of the next block, called in beside the rows
  int row_count = 0;                                 // of values that are weighed
  std::int64_t lowest;                               // position that any row sees
  WeighedPairs pairs;
  Walk walk{t.span};
  TileMask mask{t};

  explicit TileSoftmax(const AttentionTask& task)
      : t(task),
        queries(task.row_count * task.heads),
        key_width(padded_head(task.dims.key)),
        value_width(padded_head(task.dims.value)) {
    for (int i = 0; i < kTileQueries; ++i) maximum[i] = sum[i] = 0.0f;  // lanes of the folds' vectors
    lowest = t.rows[0].first;
    for (int row = 1; row < t.row_count; ++row) lowest = t.rows[row].first < lowest ? t.rows[row].first : lowest;
  }

  // What a product of stored key and query is multiplied with: scores are exponents of 2, or with a cap what the
  // hyperbolic tangent takes.
  float query_factor() const { return t.score.cap != 0.0f ? t.score.scale / t.score.cap : t.score.scale * kLog2e; }
  const float* query_at(int query) const {
    return t.q + t.rows[query / t.heads].row * t.q_stride +
           static_cast<std::int64_t>(t.head_begin + query % t.heads) * t.dims.key;
  }
  void take_query(int query, const float* from, float factor) {
    float* to = q + query * key_width;
    for (int d = 0; d < t.dims.key; ++d) to[d] = from[d] * factor;
    for (int d = t.dims.key; d < key_width; ++d) to[d] = 0.0f;
  }
  void take_queries() {
    const float factor = query_factor();
    for (int i = 0; i < queries; ++i) take_query(i, query_at(i), factor);
  }
  // Asking for keys ahead pays where one or two passes over the queries read a block (measured on AVX2).
  bool few_queries() const { return queries <= 8; }

  void locate_block(int block, Walk& w, Located& to) const {
    find_stretches(block, w, to);
    if (mask.masked()) to.seen = mask.of_tile(block);
  }
  // The block at hand, and next the one after it, after the tile's last one that of the span that follows; blocks are
  // asked for in ascending order. found(located, whether it is the first) completes what is located.
  template <class Found>
  void locate(int block, Found found) {
    Located* const before = here;
    here = next;
    next = before;
    if (here->start != start_of(block)) {  // the first one, whose keys perhaps nothing called in
      locate_block(block, walk, *here);
      found(*here, true);
    }
    next->count = next->group_count = next->stretch_count = 0;
    next->start = -1;
    if (const int after = mask.next(block + 1, t.span.block_end); after < t.span.block_end) {
      locate_block(after, walk, *next);
      found(*next, false);
    } else if (t.then.runs && few_queries() && !mask.masked()) {
      Walk then{t.then};
      find_stretches(t.then.block_begin, then, *next);
      found(*next, false);
    }
  }

  // Scores -> weights, their maximum and sum.
  template <int kN>
  void soften(int query) {
    const int vectors = (here->count + 31) / 32 * 2;
    Simd::F top[kN];
    for (int j = 0; j < kN; ++j) {
      float* row = scores[query + j];
      if (t.score.cap != 0.0f || t.score.slopes || t.score.bias.values) bend(query + j, row, vectors);
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

  // Caps scores, then adds what distance costs.
  void bend(int query, float* row, int vectors) const {
    alignas(64) static constexpr float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const float cap = t.score.cap * kLog2e;
    const float slope = t.score.slopes ? t.score.slopes[t.head_begin + query % t.heads] * kLog2e : 0.0f;
    const std::int64_t behind = here->start - t.rows[query / t.heads].position;
    const auto distance = static_cast<float>(behind);
    const DistanceBias& bias = t.score.bias;
    const float* const biases = bias.values ? bias.values + (t.head_begin + query % t.heads) * bias.width() : nullptr;
    for (int i = 0; i < vectors; ++i) {
      Simd::F x = Simd::load(row + 16 * i);
      if (t.score.cap != 0.0f) x = Simd::mul(tanh(x), Simd::set1(cap));
      const Simd::F away = Simd::add(Simd::load(kLanes), Simd::set1(distance + static_cast<float>(16 * i)));
      if (t.score.slopes) x = Simd::fma(away, Simd::set1(slope), x);
      if (biases) {
        const std::int64_t at = behind + 16 * i;
        const std::int64_t held = at < -bias.reach ? -bias.reach : at > bias.reach ? bias.reach : at;
        x = Simd::fma(Simd::load(biases + held + bias.reach), Simd::set1(kLog2e), x);
      }
      Simd::store(row + 16 * i, x);
    }
  }

  void hide(int query, float* row, int length) const {
    const QueryRow& of = t.rows[query / t.heads];
    if (mask.masked()) {
      const SeenBits seen = mask.of_row(query / t.heads, static_cast<int>(here->start / kAttentionBlock));
      for (int i = 0; i < length; ++i)
        if (!seen.at(i)) row[i] = -__builtin_inff();
      return;
    }
    const std::int64_t first = of.first - here->start, last = of.last - here->start;  // visible: first..last
    for (int i = static_cast<int>(last < 0 ? 0 : last + 1); i < length; ++i) row[i] = -__builtin_inff();
    for (int i = 0; i < first && i < length; ++i) row[i] = -__builtin_inff();
  }

  // Positions of the block at hand that lie before all that is seen: behind a window, their slots may be another's.
  int unseen() const {
    const std::int64_t before = lowest - here->start;
    return before <= 0 ? 0 : before < here->count ? static_cast<int>(before) : here->count;
  }

  // Scales of a row of values, by slot.
  void scale_weights(const float* of_head) {
    const int from = unseen();
    for (int i = 0; i < here->stretch_count; ++i) {
      const Stretch& s = here->stretches[i];
      const int skip = s.at >= from ? 0 : from - s.at < s.length ? from - s.at : s.length;
      for (int query = 0; query < queries; ++query)
        arithmetic.scale_weights(query, s.at + skip, s.length - skip, of_head + s.slot + skip);
    }
  }

  // Rows of a block's positions, `stride` bytes from slot to slot; offset(slot): to the segment of a slot, from `base`.
  template <class Offset>
  static void find_rows(const Located& of, const std::byte* base, std::size_t stride, Offset offset,
                        const std::byte** to) {
    for (int i = 0; i < of.stretch_count; ++i) {
      const Stretch& s = of.stretches[i];
      const std::byte* first = base + offset(s.slot) + static_cast<std::size_t>(s.slot % kSegmentSlots) * stride;
      for (int j = 0; j < s.length; ++j) to[s.at + j] = first + static_cast<std::size_t>(j) * stride;
    }
  }
  // Completes `rows`: of a masked tile only pairs of positions of which something is seen stay.
  void end_rows() {
    row_count = here->count;
    for (int i = unseen() - 1; i >= 0; --i) rows[i] = kNoValues;
    if (mask.masked()) gather_rows();
    rows[row_count] = row_count > 0 ? rows[row_count - 1] : kNoValues;  // for arithmetic that takes positions in pairs:
                                                                        // its weight is 0
  }
  void gather_rows() {
    constexpr int kTogether = 2 * Arithmetic::kPairGroup;
    pairs.count = 0;
    for (int pair = 0; pair < kAttentionBlock / 2; ++pair) {
      if (!here->seen.any(2 * pair / kTogether * kTogether, kTogether)) continue;
      const bool first = here->seen.at(2 * pair), second = here->seen.at(2 * pair + 1);
      rows[2 * pairs.count] = first ? rows[2 * pair] : kNoValues;
      rows[2 * pairs.count + 1] = second ? rows[2 * pair + 1] : kNoValues;
      pairs.pair[pairs.count] = static_cast<std::uint8_t>(pair);
      pairs.seen[pairs.count++] = static_cast<std::uint8_t>((first ? 1 : 0) | (second ? 2 : 0));
    }
    row_count = 2 * pairs.count;
  }
  // The weights of those pairs.
  void gather_weights() {
    for (int query = 0; mask.masked() && query < queries; ++query) arithmetic.gather_weights(query, pairs);
  }

  template <int kQ>
  void weigh(int query) {
    if (query + kQ == queries && few_queries())
      arithmetic.template weigh<kQ, true>(query, rows, keys_ahead, row_count, weighted);
    else
      arithmetic.template weigh<kQ, false>(query, rows, rows, row_count, weighted);
  }
  // A sum of nothing but rows that a query does not see may be -0 or 0, by its company: 0.
  void clear_signs() {
    for (int i = 0; mask.masked() && i < queries * value_width; i += 16)
      Simd::store(weighted + i, Simd::add(Simd::load(weighted + i), Simd::zero()));
  }

  // All queries, as many at a time as the registers take: part(how many, the first).
  template <class Part>
  void all_queries(Part part) {
    int query = 0;
    constexpr int kMost = Arithmetic::kRows;
    for (; query + kMost <= queries; query += kMost) part(std::integral_constant<int, kMost>(), query);
    if constexpr (kMost > 4)
      for (; query + 4 <= queries; query += 4) part(std::integral_constant<int, 4>(), query);
    if constexpr (kMost > 2) {
      for (; query + 3 <= queries; query += 3) part(std::integral_constant<int, 3>(), query);
      for (; query + 2 <= queries; query += 2) part(std::integral_constant<int, 2>(), query);
    }
    for (; query < queries; ++query) part(std::integral_constant<int, 1>(), query);
  }
  void weigh_all() {
    if constexpr (Arithmetic::kTiles)
      arithmetic.weigh_all(queries, rows, keys_ahead, row_count, weighted);
    else
      all_queries([&](auto count, int query) { weigh<count>(query); });
    clear_signs();
  }
};

}  // namespace espalier::kernels::ESPALIER_ISA
