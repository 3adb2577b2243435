// latent.h: a tile's queries against blocks of latent rows: one row a token, its first elements are the value.
//
// Scores: lane = query, a chain over the row's elements, in their order as everywhere; so rows are read as they lie,
// and only those that anybody sees. Weighted values as of values that are stored apart. All heads of a tile read a row
// once from the nearest cache.
#pragma once

#include "kernels/cpu/generic/attention/tile_softmax.h"

namespace espalier::kernels::ESPALIER_ISA {

// Scores [row][query] of some rows to where they belong: the row's position in every query's.
inline void put_scores(const float (*found)[kTileQueries], const int* positions, int rows, int queries,
                       float (*scores)[kAttentionBlock]) {
  for (int r = 0; r < rows; ++r)
    for (int query = 0; query < queries; ++query) scores[query][positions[r]] = found[r][query];
}

// Queries of a tile with the element first: lane = query.
template <KvType kType>
struct LatentWidening : Widening<kType> {
  static constexpr int kLatentRows = Simd::kTileRows;  // rows that are scored together
  alignas(64) float turned[kMaxKeyDim * kTileQueries];
  alignas(64) float wide[kLatentRows][kMaxKeyDim];

  void turn_queries(const float* queries, int count, int keys, int values) {
    this->key_width = keys;
    this->value_width = values;
    for (int i = 0; i < kTileQueries; ++i)
      for (int d = 0; d < keys; ++d) turned[d * kTileQueries + i] = i < count ? queries[i * keys + d] : 0.0f;
  }
  // Scores of kLatentRows rows against kV vectors of queries: out[row][query].
  template <int kV>
  void row_scores(const std::byte* const* rows, float (*out)[kTileQueries]) {
    const float* from[kLatentRows];
    for (int r = 0; r < kLatentRows; ++r) from[r] = widened(rows[r], wide[r]);
    each<kV / vectors_at_once<kV>()>([&](auto part) { some_scores<vectors_at_once<kV>()>(from, part, out); });
  }

 private:
  template <int kV>
  static constexpr int vectors_at_once() {
    return Simd::kScoreGroups < kV ? Simd::kScoreGroups : kV;
  }
  template <int kV>
  void some_scores(const float* const* from, int part, float (*out)[kTileQueries]) const {
    Simd::F acc[kLatentRows][kV];
    each<kLatentRows, kV>([&](auto r, auto v) { acc[r][v] = Simd::zero(); });
    const float* queries = turned + 16 * kV * part;
    for (int d = 0; d < this->key_width; ++d, queries += kTileQueries) {
      Simd::F some[kV];
      each<kV>([&](auto v) { some[v] = Simd::load(queries + 16 * v); });
      each<kLatentRows>([&](auto r) {
        const Simd::F k = Simd::set1(from[r][d]);
        each<kV>([&](auto v) { acc[r][v] = Simd::fma(k, some[v], acc[r][v]); });
      });
    }
    each<kLatentRows, kV>([&](auto r, auto v) { Simd::store(out[r] + 16 * (kV * part + v), acc[r][v]); });
  }
  const float* widened(const std::byte* row, float* to) const {
    if constexpr (kType == KvType::f32) return reinterpret_cast<const float*>(row);
    for (int d = 0; d < this->key_width; d += 16)
      Simd::store(to + d, Codec<kType>::in_order(Codec<kType>::load(row + d * element_bytes(kType))));
    return to;
  }
};

// The blocks of a tile whose keys and values are parts of the same rows.
template <KvType kType, class Arithmetic>
struct LatentBlocks : TileSoftmax<kType, Arithmetic> {
  using Tile = TileSoftmax<kType, Arithmetic>;
  using Tile::arithmetic, Tile::here, Tile::key_width, Tile::mask, Tile::next, Tile::queries, Tile::rows, Tile::t,
      Tile::value_width;

  static constexpr int kLatentRows = Arithmetic::kLatentRows;
  int wanted[kAttentionBlock + kLatentRows];  // positions of the block that are scored

  explicit LatentBlocks(const AttentionTask& task) : Tile(task) {
    this->take_queries();
    arithmetic.turn_queries(this->q, queries, key_width, value_width);
  }

  void find_all_rows(const Located& of, const std::byte** to) const {
    this->find_rows(
        of, t.kv.keys, static_cast<std::size_t>(key_width) * element_bytes(kType),
        [&](Slot slot) { return key_offset(t.kv, of.kv_head, slot); }, to);
  }

  // The positions that anybody sees, and behind them the last one again, so that rows are always as many as are scored
  // together.
  int find_wanted() {
    int count = 0;
    for (int at = 0; at < here->count; ++at)
      if (!mask.masked() || here->seen.at(at)) wanted[count++] = at;
    for (int i = 0; i < kLatentRows; ++i) wanted[count + i] = count > 0 ? wanted[count - 1] : 0;
    return count;
  }
  const float* scales() const { return t.kv.key_scales + t.span.kv_head * t.kv.head_scales; }

  template <int kV>
  void score_all() {
    const int count = find_wanted();
    alignas(64) float found[kLatentRows][kTileQueries];
    for (int i = 0; i < count; i += kLatentRows) {
      const std::byte* some[kLatentRows];
      for (int r = 0; r < kLatentRows; ++r) some[r] = rows[wanted[i + r]];
      arithmetic.template row_scores<kV>(some, found);
      if constexpr (Arithmetic::kTiles)
        arithmetic.put(found, wanted + i, queries, this->scores);
      else
        put_scores(found, wanted + i, kLatentRows, queries, this->scores);
    }
    if constexpr (has_scales(kType)) scale_scores();
  }
  void scale_scores() {
    for (int i = 0; i < here->stretch_count; ++i) {
      const Stretch& s = here->stretches[i];
      for (int query = 0; query < queries; ++query)
        for (int j = 0; j < s.length; ++j) this->scores[query][s.at + j] *= scales()[s.slot + j];
    }
  }

  // The next block's rows beside this one's.
  void find_rows_ahead() {
    const int count = this->row_count, part = key_width * element_bytes(kType),
              beside = value_width * element_bytes(kType);
    const std::byte* ahead[kAttentionBlock + 1];
    find_all_rows(*next, ahead);
    for (int i = 0; i < next->count; ++i) {
      if (i < count) {
        this->keys_ahead[i] = ahead[i];
        call_in(ahead[i] + beside, part - beside);
      } else {
        call_in(ahead[i], part);
      }
    }
    for (int i = next->count < count ? next->count : count; i <= count; ++i) this->keys_ahead[i] = rows[i];
  }

  void compute(int block) {
    this->locate(block, [](Located&, bool) {});
    find_all_rows(*here, rows);
    if (queries > 16)
      score_all<2>();
    else
      score_all<1>();
    this->soften_all();
    if constexpr (has_scales(kType)) this->scale_weights(scales());
    this->end_rows();
    this->gather_weights();
    if (this->few_queries() || Arithmetic::kTiles) find_rows_ahead();
    this->weigh_all();
  }
};

}  // namespace espalier::kernels::ESPALIER_ISA
