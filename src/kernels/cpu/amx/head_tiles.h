// head_tiles.h: attention of ordinary heads in tiles; compiled with -mavx512bf16.
//
// Scores: A tiles are 16 queries, B tiles groups of keys as they lie (a slot in each column), C [query][slot]. Weighted
// values: A tiles are 16 queries' weights of 32 positions, B tiles such positions' values, pairs of them interleaved
// once for all queries; a tile of ones gives the sums of weights. Sums go in groups of 32 elements or positions, in
// ascending order, as the instruction does (matmul_bf16.cpp). A key of which 16 elements are left behind whole groups
// ends with a group of its last 32, of which the query has zeros for the first 16. Each score, weight and sum is a
// function of its query and the block: rows of a tile do not meet.
//
// Tile products take turns with what vectors do meanwhile: the first 16 queries' scores with the interleaving, the
// second's with the first's exponentials, and so on. The processor overlaps what stands some hundred instructions apart.
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

  void set_queries(const float* from, int count, int keys, int) {
    key_width = keys;
    std::uint16_t* to = q;
    const bool alone = keys < kGroup;
    for (int query = 0; query < count; ++query, from += keys)
      for (int group = 0; group < key_groups(); ++group, to += kGroup) {
        const bool whole = (group + 1) * kGroup <= keys;
        const float* at = from + group * kGroup;
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
  __m512 r = _mm512_set1_ps(7.80245227e-2f);  // minimax
  r = _mm512_fmadd_ps(r, f, _mm512_set1_ps(2.26067155e-1f));
  r = _mm512_fmadd_ps(r, f, _mm512_set1_ps(6.9583354e-1f));
  r = _mm512_fmadd_ps(r, f, _mm512_set1_ps(9.99925219e-1f));
  return _mm512_scalef_ps(r, x);  // of x rounded down
}

// Keys and values apart.
class HeadBlocks : public Blocks<KvType::bf16, HeadQueries> {
 public:
  explicit HeadBlocks(const AttentionTask& task) : Blocks(task), columns_(value_width / kTileEdge) {
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

  void compute(int block) {
    locate(block);
    find_values();
    Packing packing(*this);
    Scores first(*this, 0);
    while (packing.step()) first.steps(first.count() / 8 + 1);
    first.end();
    vectors_ = (here->count + 31) / 32 * 2;
    if (queries <= kTileEdge) {
      soften_tile(0, queries, [] {});
      gather_weights(0, queries);
      Weighing(*this, 0).end();
    } else {
      Scores second(*this, 1);
      const int some = (second.count() + 3) / 4;
      soften_tile(0, kTileEdge, [&] { second.steps(some); });
      gather_weights(0, kTileEdge);
      second.end();
      Weighing weigh(*this, 0);
      const int more = (weigh.count() + 3) / 4;
      soften_tile(kTileEdge, queries, [&] { weigh.steps(more); });
      gather_weights(kTileEdge, queries);
      weigh.end();
      Weighing(*this, 1).end();
    }
    for (int query = 0; query < queries; ++query) write(query);
  }

 private:
  static constexpr int kMostColumns = kMaxValueDim / kTileEdge, kBatch = 4;

  // C tiles 0..3, A tile 4, B tiles 5 and 6.
  static void shape_tiles(int rows) {
    TileShapes shapes;
    for (int tile = 0; tile < 5; ++tile) shapes.set(tile, rows, 64);
    shapes.set(5, kTileEdge, 64);
    shapes.set(6, kTileEdge, 64);
    shapes.load();
  }

  // Scores of 16 queries, four groups of slots at a time.
  class Scores {
   public:
    Scores(HeadBlocks& of, int tile) : of_(of), tile_(tile), groups_(of.here->group_count) {}
    int count() const { return (groups_ + kBatch - 1) / kBatch * of_.arithmetic.key_groups(); }
    void steps(int n) {
      for (int i = 0; i < n && step(); ++i) {
      }
    }
    void end() {
      while (step()) {
      }
    }

   private:
    bool step() {
      if (first_ >= groups_) return false;
      const int left = groups_ - first_;
      if (left >= 4)
        step_of<4>();
      else if (left == 3)
        step_of<3>();
      else if (left == 2)
        step_of<2>();
      else
        step_of<1>();
      return true;
    }
    template <int kN>
    void step_of() {
      const HeadQueries& q = of_.arithmetic;
      const Group* group = of_.here->groups + first_;
      if (at_ == 0)
        each<kN>([&](auto i) {
          clear_tile<i>();
          keys_[i] = of_.keys_of(group[i], of_.joined_[i]);
        });
      load_tile<4>(q.tile(tile_, at_), q.row_bytes());
      const int offset = 2 * kSlotGroup * q.group_begin(at_);
      each<kN>([&](auto i) {
        load_tile<5 + i % 2>(keys_[i] + offset, 64);
        multiply_bf16<i, 4, 5 + i % 2>();
      });
      if (++at_ < q.key_groups()) return;
      at_ = 0;
      first_ += kN;
      each<kN>([&](auto i) {
        float* const to = group[i].whole() ? &of_.scores[kTileEdge * tile_][group[i].at] : &of_.aside_[0][kTileEdge * i];
        store_tile<i>(to, group[i].whole() ? sizeof of_.scores[0] : sizeof of_.aside_[0]);
        if (!group[i].whole()) of_.put_aside(group[i], kTileEdge * i, kTileEdge * tile_);
      });
    }

    HeadBlocks& of_;
    int tile_, groups_, first_ = 0, at_ = 0;
    const std::byte* keys_[kBatch];
  };

  // Sums over positions of 16 queries, four columns' tiles at a time, the last one of ones.
  class Weighing {
   public:
    Weighing(HeadBlocks& of, int tile)
        : of_(of), tile_(tile), columns_(of.columns_ + 1), groups_((of.row_count + kGroup - 1) / kGroup) {}
    int count() const { return (columns_ + kBatch - 1) / kBatch * groups_; }
    void steps(int n) {
      for (int i = 0; i < n && step(); ++i) {
      }
    }
    void end() {
      while (step()) {
      }
    }

   private:
    bool step() {
      if (first_ >= columns_) return false;
      const int left = columns_ - first_;
      if (left >= 4)
        step_of<4>();
      else if (left == 3)
        step_of<3>();
      else if (left == 2)
        step_of<2>();
      else
        step_of<1>();
      return true;
    }
    template <int kN>
    void step_of() {
      if (at_ == 0) each<kN>([](auto i) { clear_tile<i>(); });
      load_tile<4>(of_.arithmetic.p[kTileEdge * tile_] + at_ * kTileEdge, sizeof of_.arithmetic.p[0]);
      each<kN>([&](auto i) {
        load_tile<5 + i % 2>(first_ + i < of_.columns_ ? of_.packed(at_, first_ + i) : of_.ones_, 64);
        multiply_bf16<i, 4, 5 + i % 2>();
      });
      if (++at_ < groups_) return;
      at_ = 0;
      each<kN>([&](auto i) { store_tile<i>(of_.sums_[tile_][first_ + i], 64); });
      first_ += kN;
    }

    HeadBlocks& of_;
    int tile_, columns_, groups_, first_ = 0, at_ = 0;
  };

  // The block's values into pairs of positions, 16 positions at a time; meanwhile the next block is called in.
  class Packing {
   public:
    explicit Packing(HeadBlocks& of) : of_(of), slices_(2 * ((of.row_count + kGroup - 1) / kGroup)) {}
    bool step() {
      if (at_ == slices_) return false;
      if (of_.plain_) {
        const std::byte* first = of_.here->groups[at_].values;
        const std::size_t stride = 2 * static_cast<std::size_t>(of_.value_width);
        of_.pack(at_, [&](int i) { return first + static_cast<std::size_t>(i) * stride; });
      } else {
        const std::byte* const* rows = of_.rows + 16 * at_;
        const int left = of_.row_count - 16 * at_;
        of_.pack(at_, [&](int i) { return i < left ? rows[i] : kNoValues; });
      }
      if (at_ < of_.next->group_count) of_.call_in_group(of_.next->groups[at_]);
      if (++at_ == slices_)
        for (int g = at_; g < of_.next->group_count; ++g) of_.call_in_group(of_.next->groups[g]);
      return true;
    }

   private:
    HeadBlocks& of_;
    int slices_, at_ = 0;
  };

  // A group's keys where they lie, or a copy: of lanes that lie in two places, and of keys that fill no group.
  const std::byte* keys_of(const Group& group, std::uint32_t (*copy)[kSlotGroup]) const {
    if (!group.rest && key_width >= kGroup) return group.keys;
    const auto lanes = static_cast<__mmask16>(0xffffu << group.split);  // none where all lie in one place
    const std::byte* const rest = group.rest ? group.rest : group.keys;
    for (int pair = 0; pair < key_width / 2; ++pair) {
      const __m512i here = _mm512_loadu_si512(group.keys + 64 * pair);
      _mm512_store_si512(copy[pair], _mm512_mask_loadu_epi32(here, lanes, rest + 64 * pair));
    }
    for (int pair = key_width / 2; pair < kTileEdge; ++pair) _mm512_store_si512(copy[pair], _mm512_setzero_si512());
    return reinterpret_cast<const std::byte*>(copy);
  }
  void put_aside(const Group& group, int column, int first) {
    for (int query = first; query < queries && query < first + kTileEdge; ++query)
      __builtin_memcpy(&scores[query][group.at], aside_[query - first] + column + group.lane,
                       static_cast<std::size_t>(group.length) * sizeof(float));
  }
  void call_in_group(const Group& group) const {
    call_in(group.keys, group_bytes());
    call_in(group.values, 2 * kSlotGroup * value_width);
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

  std::uint32_t* packed(int group, int column) { return packed_ + (group * columns_ + column) * kTileEdge * kTileEdge; }

  // Elements of two positions: of every 32 the first column's tile has 0-3, 8-11, .., the second's the rest; of 16 at the
  // end a tile has them in order.
  template <class Row>
  [[gnu::always_inline]] void pack(int slice, Row row) {
    std::uint32_t* const first = packed(slice / 2, 0) + slice % 2 * 8 * kTileEdge;
    for (int i = 0; i < 16; i += 2) {
      const auto *a = reinterpret_cast<const std::uint16_t*>(row(i)),
                 *b = reinterpret_cast<const std::uint16_t*>(row(i + 1));
      std::uint32_t* to = first + i / 2 * kTileEdge;
      int d = 0;
      for (; d + kGroup <= value_width; d += kGroup, to += 2 * kTileEdge * kTileEdge) {
        const __m512i one = _mm512_loadu_si512(a + d), other = _mm512_loadu_si512(b + d);
        _mm512_store_si512(to, _mm512_unpacklo_epi16(one, other));
        _mm512_store_si512(to + kTileEdge * kTileEdge, _mm512_unpackhi_epi16(one, other));
      }
      if (d == value_width) continue;
      const __m512i one = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + d))),
                    other = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + d)));
      _mm512_store_si512(to, _mm512_or_si512(one, _mm512_slli_epi32(other, 16)));
    }
  }

  // Scores of queries [first, end) become weights; beside() is called four times.
  template <class Beside>
  void soften_tile(int first, int end, Beside beside) {
    int query = first;
    for (; query + 4 <= end; query += 4) {
      beside();
      soften<4>(query);
    }
    for (; query < end; ++query) soften<1>(query);
  }
  template <int kN>
  void soften(int query) {
    const bool partly = mask.masked() || all_from_ > here->start || all_to_ < here->start + kAttentionBlock - 1;
    __m512 top[kN];
    if (partly || t.score.cap != 0.0f || t.score.slopes)
      for (int j = 0; j < kN; ++j) {
        float* row = scores[query + j];
        if (t.score.cap != 0.0f || t.score.slopes) bend(query + j, row, vectors_);
        if (partly) hide(query + j, row, 16 * vectors_);
      }
    each<kN>([&](auto j) { top[j] = _mm512_load_ps(scores[query + j]); });
    for (int i = 1; i < vectors_; ++i)
      each<kN>([&](auto j) { top[j] = _mm512_max_ps(top[j], _mm512_load_ps(scores[query + j] + 16 * i)); });
    Simd::F most[kN];
    each<kN>([&](auto j) { most[j].v = top[j]; });
    reduce_max(most, maximum + query);
    each<kN>([&](auto j) {
      top[j] = _mm512_max_ps(_mm512_set1_ps(maximum[query + j]), _mm512_set1_ps(-3.0e38f));
    });
    for (int i = 0; i < vectors_; i += 2)
      each<kN>([&](auto j) {
        const float* at = scores[query + j] + 16 * i;
        const __m512 low = short_power(_mm512_sub_ps(_mm512_load_ps(at), top[j])),
                     high = short_power(_mm512_sub_ps(_mm512_load_ps(at + 16), top[j]));
        _mm512_store_si512(arithmetic.p[query + j] + 8 * i,
                           reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
      });
  }
  void gather_weights(int first, int end) {
    if (!mask.masked()) return;
    for (int query = first; query < end; ++query) arithmetic.gather_weights(query, pairs);
  }

  void write(int query) {
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    const auto* from = sums_[query / kTileEdge];
    const int row = query % kTileEdge;
    float* to = weighted + query * value_width;
    int column = 0;
    for (; column + 2 <= columns_; column += 2, to += kGroup) {
      const __m512 low = _mm512_load_ps(from[column][row]), high = _mm512_load_ps(from[column + 1][row]);
      _mm512_storeu_ps(to, _mm512_permutex2var_ps(low, first, high));
      _mm512_storeu_ps(to + kTileEdge, _mm512_permutex2var_ps(low, second, high));
    }
    if (column < columns_) _mm512_storeu_ps(to, _mm512_load_ps(from[column][row]));
    sum[query] = from[columns_][row][0];
  }

  int columns_;                     // tiles of a position's values
  int vectors_ = 0;                 // of 16 positions
  std::int64_t all_from_, all_to_;  // what every row sees
  bool plain_ = false;
  alignas(64) std::uint32_t ones_[kTileEdge * kTileEdge];
  alignas(64) std::uint32_t joined_[kBatch][kMaxKeyDim / 2][kSlotGroup];  // keys of groups that lie in two places
  alignas(64) float aside_[kTileEdge][kBatch * kTileEdge];                // scores of groups that are not whole
  alignas(64) std::uint32_t packed_[kAttentionBlock / 2 * kMaxValueDim];  // [32 positions][column][pair][16]
  alignas(64) float sums_[2][kMostColumns + 1][kTileEdge][kTileEdge];
};

}  // namespace espalier::kernels::amx
