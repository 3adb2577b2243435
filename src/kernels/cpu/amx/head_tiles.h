// head_tiles.h: attention of ordinary heads in tiles; compiled with -mavx512bf16.
//
// Scores: A tiles are 16 queries, B tiles groups of keys as they lie (a slot in each column), C [query][slot]. Weighted
// values: as in value_tiles.h, with a tile of ones behind the last column, which gives the sums of weights. Sums go in
// groups of 32 elements or positions, in ascending order, as the instruction does (matmul_bf16.cpp). A key of which 16
// elements are left behind whole groups ends with a group of its last 32, of which the query has zeros for the first 16.
// Each score, weight and sum is a function of its query and the block: rows of a tile do not meet.
//
// Sapphire Rapids overlaps hardly anything between tiles and vectors (a tile's store waits for products), so one follows
// the other; what matters is that scores, weights and interleaved values of 32 queries stay in the first-level cache.
#pragma once

#include "kernels/cpu/amx/value_tiles.h"
#include "kernels/cpu/generic/attention/blocks.h"

namespace espalier::kernels::amx {

// Queries as rows of A tiles.
struct HeadQueries : PairWeights {
  static constexpr int kRows = 1, kGroups = 1;
  static constexpr int kPairGroup = kGroup / 2;
  static constexpr bool kTiles = true;
  static constexpr int kMostWidth = (kMaxKeyDim + kGroup - 1) / kGroup * kGroup;

  int key_width;                                           // rounded up to 16
  alignas(64) std::uint16_t q[kTileQueries * kMostWidth];  // [query][key_groups() * 32]

  int key_groups() const { return (key_width + kGroup - 1) / kGroup; }
  // Elements of a key before its group.
  int group_begin(int group) const {
    return (group + 1) * kGroup <= key_width || key_width < kGroup ? group * kGroup : key_width - kGroup;
  }
  const std::uint16_t* tile(int row_tile, int group) const {
    return q + (row_tile * kTileEdge * key_groups() + group) * kGroup;
  }
  std::size_t row_bytes() const { return 2 * static_cast<std::size_t>(key_groups()) * kGroup; }

  // Behind the last query of a second tile zeros.
  void set_queries(const float* from, int count, int keys, int) {
    key_width = keys;
    std::uint16_t* to = q;
    const bool alone = keys < kGroup;
    for (int query = 0; query < count; ++query, from += keys)
      for (int group = 0; group < key_groups(); ++group, to += kGroup) {
        const bool whole = (group + 1) * kGroup <= keys;
        const float* at = whole || alone ? from + group * kGroup : from + keys - kGroup / 2;
        const __m512 first = whole || alone ? _mm512_loadu_ps(at) : _mm512_setzero_ps(),
                     second = alone ? _mm512_setzero_ps() : _mm512_loadu_ps(whole ? at + kGroup / 2 : at);
        _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first)));
      }
    const int rows = count > kTileEdge ? kTileQueries : count;
    for (std::uint16_t* const end = q + rows * key_groups() * kGroup; to < end; to += kGroup)
      _mm512_storeu_si512(to, _mm512_setzero_si512());
  }
};

// 2^x for x <= 0, -inf included, to the thirteen bits that survive rounding to bf16.
inline __m512 short_power(__m512 x) {
  const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // 0 .. 1
  __m512 r = _mm512_set1_ps(7.80245227e-2f);                                        // minimax
  r = _mm512_fmadd_ps(r, f, _mm512_set1_ps(2.26067155e-1f));
  r = _mm512_fmadd_ps(r, f, _mm512_set1_ps(6.9583354e-1f));
  r = _mm512_fmadd_ps(r, f, _mm512_set1_ps(9.99925219e-1f));
  return _mm512_scalef_ps(r, x);  // times 2 to the power of x rounded down
}

// The blocks of a tile whose keys and values lie apart.
class HeadBlocks : public Blocks<KvType::bf16, HeadQueries> {
 public:
  explicit HeadBlocks(const AttentionTask& task) : Blocks(task) {
    all_from_ = t.rows[0].first;
    all_to_ = t.rows[0].last;
    for (int row = 1; row < t.row_count; ++row) {
      all_from_ = t.rows[row].first > all_from_ ? t.rows[row].first : all_from_;
      all_to_ = t.rows[row].last < all_to_ ? t.rows[row].last : all_to_;
    }
    for (auto& two : ones_) two = 0x3f803f80u;
    for (int query = queries; query < kTileQueries; ++query)
      __builtin_memset(arithmetic.p[query], 0, sizeof arithmetic.p[query]);
    shape_tiles(queries <= kTileEdge ? queries : kTileEdge);
  }

  // The block's part of every query, in `weighted`, `maximum` and `sum`; or folded at once.
  void compute(int block, Folds* folds = nullptr) {
    locate(block);
    find_values();
    for (int first = 0; first < queries; first += kTileEdge) {
      score(first / kTileEdge);
      soften(first, queries - first < kTileEdge ? queries : first + kTileEdge);
    }
    if (folds)
      for (int first = 0; first < queries; first += 16) folds->join(first, maximum, kept_, added_);
    const int last = value_width / kGroup * kGroup;
    for (int d = 0; d < last; d += kGroup) columns<2>(d, folds);
    last < value_width ? columns<1>(last, folds) : columns<0>(last, folds);
  }

 private:
  // C tiles 0..3, A tiles 4 and 5, B tiles 6 and 7.
  static void shape_tiles(int rows) {
    TileShapes shapes;
    for (int tile = 0; tile < 6; ++tile) shapes.set(tile, rows, 64);
    shapes.set(6, kTileEdge, 64);
    shapes.set(7, kTileEdge, 64);
    shapes.load();
  }

  // Scores of 16 queries, four groups of slots at a time.
  void score(int tile) {
    for (int group = 0; group < here->group_count; group += 4) {
      const int left = here->group_count - group;
      if (left >= 4)
        score_groups<4>(tile, group);
      else if (left == 3)
        score_groups<3>(tile, group);
      else if (left == 2)
        score_groups<2>(tile, group);
      else
        score_groups<1>(tile, group);
    }
  }
  template <int kN>
  void score_groups(int tile, int first) {
    const Group* group = here->groups + first;
    const std::byte* keys[kN];
    each<kN>([&](auto i) { keys[i] = keys_of(group[i], joined_[i]); });
    each<kN>([](auto i) { clear_tile<i>(); });
    for (int part = 0; part < arithmetic.key_groups(); ++part) {
      load_tile<4>(arithmetic.tile(tile, part), arithmetic.row_bytes());
      const int offset = 2 * kSlotGroup * arithmetic.group_begin(part);
      each<kN>([&](auto i) {
        load_tile<6 + i % 2>(keys[i] + offset, 64);
        multiply_bf16<i, 4, 6 + i % 2>();
      });
    }
    each<kN>([&](auto i) {
      if (group[i].whole())
        store_tile<i>(scores[0] + group[i].at, sizeof scores[0]);
      else
        store_tile<i>(aside_[0] + kTileEdge * i, sizeof aside_[0]);
    });
    for (int i = 0; i < kN; ++i)
      if (!group[i].whole()) put_aside(group[i], kTileEdge * i, queries - kTileEdge * tile);
  }
  void put_aside(const Group& group, int column, int count) {
    for (int query = 0; query < count && query < kTileEdge; ++query)
      __builtin_memcpy(&scores[query][group.at], aside_[query] + column + group.lane,
                       static_cast<std::size_t>(group.length) * sizeof(float));
  }
  // A group's keys where they lie, or a copy: of lanes that lie in two places, and of keys that fill no group.
  const std::byte* keys_of(const Group& group, std::uint32_t (*copy)[kSlotGroup]) const {
    if (!group.rest && key_width >= kGroup) return group.keys;
    const auto lanes = static_cast<__mmask16>(0xffffu << group.split);  // none where all lie in one place
    const std::byte* const rest = group.rest ? group.rest : group.keys;
    for (int pair = 0; pair < key_width / 2; ++pair) {
      const __m512i some = _mm512_loadu_si512(group.keys + 64 * pair);
      _mm512_store_si512(copy[pair], _mm512_mask_loadu_epi32(some, lanes, rest + 64 * pair));
    }
    for (int pair = key_width / 2; pair < kTileEdge; ++pair) _mm512_store_si512(copy[pair], _mm512_setzero_si512());
    return reinterpret_cast<const std::byte*>(copy);
  }

  // Scores of queries [first, end) become weights.
  void soften(int first, int end) {
    const int vectors = (here->count + 31) / 32 * 2;
    if (t.score.cap != 0.0f || t.score.slopes || t.score.bias.values)
      for (int query = first; query < end; ++query) bend(query, scores[query - first], vectors);
    if (mask.masked() || all_from_ > here->start || all_to_ < here->start + kAttentionBlock - 1)
      for (int query = first; query < end; ++query) hide(query, scores[query - first], 16 * vectors);
    int query = first;
    for (; query + 4 <= end; query += 4) find_maximum<4>(query, scores + (query - first), vectors);
    for (; query < end; ++query) find_maximum<1>(query, scores + (query - first), vectors);
    for (query = first; query < end; ++query) {
      const __m512 top = _mm512_set1_ps(maximum[query] > -3.0e38f ? maximum[query] : -3.0e38f);
      const float* from = scores[query - first];
      if (vectors == kAttentionBlock / 16)
        each<kAttentionBlock / 32>([&](auto i) { weigh_pairs(from, top, query, i); });
      else
        for (int i = 0; i < vectors / 2; ++i) weigh_pairs(from, top, query, i);
      if (mask.masked()) arithmetic.gather_weights(query, pairs);
    }
  }
  template <int kN>
  void find_maximum(int query, const float (*rows_of)[kAttentionBlock], int vectors) {
    Simd::F top[kN];
    each<kN>([&](auto j) { top[j] = Simd::load(rows_of[j]); });
    for (int i = 1; i < vectors; ++i)
      each<kN>([&](auto j) { top[j] = Simd::max(top[j], Simd::load(rows_of[j] + 16 * i)); });
    reduce_max(top, maximum + query);
  }
  [[gnu::always_inline]] void weigh_pairs(const float* from, __m512 top, int query, int i) {
    const __m512 low = short_power(_mm512_sub_ps(_mm512_load_ps(from + 32 * i), top)),
                 high = short_power(_mm512_sub_ps(_mm512_load_ps(from + 32 * i + 16), top));
    _mm512_store_si512(arithmetic.p[query] + 16 * i, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }

  // Whether the block's values are whole groups, one behind the other; else where each position's are.
  void find_values() {
    plain_ = !mask.masked() && here->count == kAttentionBlock && here->group_count == kAttentionBlock / kSlotGroup &&
             unseen() == 0;
    for (int g = 0; plain_ && g < here->group_count; ++g) plain_ = here->groups[g].whole() && !here->groups[g].rest;
    row_count = here->count;
    if (plain_) return;
    find_rows(
        *here, t.kv.values, 2 * static_cast<std::size_t>(value_width),
        [&](Slot slot) { return value_offset(t.kv, t.span.kv_head, slot); }, rows);
    end_rows();
  }

  // Weights times the elements [d, d + 16 kN), for kN < 2 with the sums of weights.
  template <int kN>
  void columns(int d, Folds* folds) {
    interleave<kN>(d);
    if (queries > kTileEdge)
      products<2, kN>();
    else
      products<1, kN>();
    for (int query = 0; query < queries; ++query)
      folds ? take<kN, true>(query, d, folds) : take<kN, false>(query, d, folds);
    if (folds && kN < 2) folds->add_sums(queries, sum, kept_, added_);
  }
  template <int kTiles, int kN>
  void products() {
    constexpr int kColumns = kN < 2 ? kN + 1 : 2;
    each<kTiles, kColumns>([](auto r, auto c) { clear_tile<2 * r + c>(); });
    for (int group = 0; group * kGroup < row_count; ++group) {
      each<kTiles>(
          [&](auto r) { load_tile<4 + r>(arithmetic.p[kTileEdge * r] + group * kTileEdge, sizeof arithmetic.p[0]); });
      each<kColumns>([&](auto c) { load_tile<6 + c>(c < kN ? columns_[c][group * kTileEdge] : ones_, 64); });
      each<kTiles, kColumns>([](auto r, auto c) { multiply_bf16<2 * r + c, 4 + r, 6 + c>(); });
    }
    each<kTiles, kColumns>([&](auto r, auto c) { store_tile<2 * r + c>(sums_[r][c], 64); });
  }
  template <int kN, bool kFold>
  void take(int query, int d, Folds* folds) {
    const auto* from = sums_[query / kTileEdge];
    const int row = query % kTileEdge;
    __m512 found[kN + 1];
    if constexpr (kN == 1) found[0] = _mm512_load_ps(from[0][row]);
    if constexpr (kN == 2) {
      const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
      const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
      const __m512 low = _mm512_load_ps(from[0][row]), high = _mm512_load_ps(from[1][row]);
      found[0] = _mm512_permutex2var_ps(low, first, high);
      found[1] = _mm512_permutex2var_ps(low, second, high);
    }
    if (mask.masked())  // as clear_signs() has it
      each<kN>([&](auto c) { found[c] = _mm512_add_ps(found[c], _mm512_setzero_ps()); });
    if constexpr (kN < 2) sum[query] = from[kN][row][0];
    if constexpr (kFold) {
      if (maximum[query] == Folds::kNothing) return;
      each<kN>([&](auto c) {
        folds->add_part(folds->acc + query * value_width + d + 16 * c, {found[c]}, kept_[query], added_[query]);
      });
    } else {
      each<kN>([&](auto c) { _mm512_storeu_ps(weighted + query * value_width + d + 16 * c, found[c]); });
    }
  }

  // The values' elements [d, d + 32) of two positions each: the first columns have 0-3, 8-11, .., the second the rest;
  // of the last 16 alone the first have them in order. Meanwhile a share of the next block is called in, evenly: memory
  // follows few lines at once.
  template <int kN>
  void interleave(int d) {
    if constexpr (kN > 0) {
      const int pairs_here = (row_count + kGroup - 1) / kGroup * kTileEdge;
      for (int pair = 0; pair < pairs_here; ++pair) {
        if (plain_) {
          const std::byte* row = here->groups[pair / 8].values + 2 * (d + pair % 8 * 2 * value_width);
          interleave_pair<kN>(row, row + 2 * value_width, pair);
        } else {
          const int i = 2 * pair;
          interleave_pair<kN>((i < row_count ? rows[i] : kNoValues) + 2 * d,
                              (i + 1 < row_count ? rows[i + 1] : kNoValues) + 2 * d, pair);
        }
        if (pair / 8 < next->group_count) call_in_share(next->groups[pair / 8], d, pair % 8);
      }
      for (int pair = pairs_here; pair < 8 * next->group_count; ++pair)
        call_in_share(next->groups[pair / 8], d, pair % 8);
    }
  }
  // Beside elements [d, d + 32) of two positions: as much of a group's values and keys.
  void call_in_share(const Group& group, int d, int pair) const {
    const std::byte* values = group.values + 2 * (d + pair * 2 * value_width);
    call_in(values);
    call_in(values + 2 * value_width);
    const int shares = 8 * ((value_width + kGroup - 1) / kGroup), lines = key_width / 2, share = d / kGroup * 8 + pair;
    for (int line = lines * share / shares; line < lines * (share + 1) / shares; ++line)
      call_in(group.keys + 64 * line);
  }
  template <int kN>
  [[gnu::always_inline]] void interleave_pair(const std::byte* a, const std::byte* b, int pair) {
    if constexpr (kN == 2) {
      const __m512i one = _mm512_loadu_si512(a), other = _mm512_loadu_si512(b);
      _mm512_store_si512(columns_[0][pair], _mm512_unpacklo_epi16(one, other));
      _mm512_store_si512(columns_[1][pair], _mm512_unpackhi_epi16(one, other));
    } else {
      const __m512i one = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a))),
                    other = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)));
      _mm512_store_si512(columns_[0][pair], _mm512_or_si512(one, _mm512_slli_epi32(other, 16)));
    }
  }
  std::int64_t all_from_, all_to_;  // what every row sees
  bool plain_ = false;
  alignas(64) float kept_[kTileQueries], added_[kTileQueries];  // factors of the folds
  alignas(64) std::uint32_t ones_[kTileEdge * kTileEdge];
  alignas(64) std::uint32_t joined_[4][kMaxKeyDim / 2][kSlotGroup];  // keys of groups that lie in two places
  alignas(64) float aside_[kTileEdge][4 * kTileEdge];                // scores of groups that are not whole
  alignas(64) std::uint32_t columns_[2][kAttentionBlock / 2][kTileEdge];
  alignas(64) float sums_[2][2][kTileEdge][kTileEdge];
};

}  // namespace espalier::kernels::amx
