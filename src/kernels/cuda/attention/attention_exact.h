// attention_exact.h: attention with the CPU's bits, of one type of keys and values; see attention_task.h.
//
// A block of threads has a tile: some rows of one sequence x query heads that share a KV head, so that keys and
// values are read once for all of them. Its threads stand in subgroups of 64, each for some of the tile's queries.
// The positions that a row of the tile sees get places, up to 128 of them at a time: those of one block of positions,
// or where few are seen of each, of some blocks. A thread computes the scores of two places, a chain over the key's
// elements; sixteen threads make a query's weights of a block, lane by lane as on a CPU; a thread computes two
// elements of a block's weighted values, a chain over its places, and folds them. Queries, scores and folds lie in
// shared memory.
// Threads: asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cuda/attention/attention_task.h"
//
#include "kernels/cuda/simt/simd.h"
//
#include "kernels/cpu/generic/hyperbolic.h"
#include "kernels/cuda/attention/attention_folds.h"
#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/stored_elements.h"

namespace espalier::cuda::attention {

inline constexpr int kSubgroup = 64;
inline constexpr int kWords = kAttentionBlock / 64;
inline constexpr int kLaneScores = kAttentionBlock / 16;  // of a query and block, what one of sixteen threads has

// How the queries of a task are cut into tiles.
struct Cut {
  int rows, heads;  // of a tile, at most
  int parts;        // tiles that the query heads of a KV head take
  int capacity;     // queries of a tile there is room for; a multiple of 4 * subgroups
  int subgroups;
  int window;  // blocks that are looked through together, for positions that are seen
};

// --- shared memory ---

inline constexpr int kMostQueries = 32, kMostWindow = 32;

// What a tile keeps there, so that registers are free for sums.
struct alignas(16) TileFacts {
  // Rows [first_row, first_row + row_count) of the task x query heads [head_begin, head_begin + heads) of all.
  int first_row, row_count, kv_head, head_begin, heads, queries;
  int of_subgroup;                          // queries that each subgroup has to take
  int run_begin, run_end;                   // of its sequence
  int block_begin, block_end;               // that some row reaches, or a piece's share of them
  std::int64_t value_at[kAttentionBlock];   // of places: bytes from the values to the row
  Slot slots[kAttentionBlock];              // of places
  std::uint32_t seen_by[kAttentionBlock];   // of places: bits of the rows that see it
  std::uint64_t seen[kMostWindow][kWords];  // of blocks of the window: positions that some row sees
  int counts[kMostWindow];                  // of those
  QueryRow rows[kMostQueries];
  // Of queries: which of the tile's rows, which head of all, and the folds.
  int row_of[kMostQueries], head_of[kMostQueries];
  float maximum[kMostQueries], sum[kMostQueries];
};
// What becomes of a block's part of a query: it is folded by these factors, or goes there where the work is in pieces.
union BlockPart {
  struct {
    float kept, added;  // added < 0: nothing is seen of the block
  } fold;
  float* partial;  // null: nothing is seen, or nobody asks
};
static_assert(sizeof(BlockPart) == 8);

// Behind the facts: bits of positions [blocks of the window][rows][kWords]; parts [blocks of the window][capacity];
// then floats: weights, first the scores, [places][stride]; queries [key elements][stride]; folded values
// [queries][value elements]. The stride lets threads that go over elements or places meet different banks.
struct Room {
  int capacity, rows, window, key_width;
  ESPALIER_EITHER constexpr int stride() const { return capacity + 4; }
  ESPALIER_ON_DEVICE static TileFacts& facts() { return *simt::shared<TileFacts>(); }
  ESPALIER_ON_DEVICE static std::uint64_t* row_bits() {
    return reinterpret_cast<std::uint64_t*>(simt::shared<TileFacts>() + 1);
  }
  ESPALIER_ON_DEVICE BlockPart* parts() const {
    return reinterpret_cast<BlockPart*>(row_bits() + window * rows * kWords);
  }
  ESPALIER_ON_DEVICE float* weights() const { return reinterpret_cast<float*>(parts() + window * capacity); }
  ESPALIER_ON_DEVICE float* queries() const { return weights() + kAttentionBlock * stride(); }
  ESPALIER_ON_DEVICE float* folded() const { return weights() + (kAttentionBlock + key_width) * stride(); }
  constexpr std::size_t bytes(int value_width) const {
    return sizeof(TileFacts) + sizeof(std::uint64_t) * static_cast<std::size_t>(window * (rows * kWords + capacity)) +
           sizeof(float) * static_cast<std::size_t>((kAttentionBlock + key_width) * stride() + capacity * value_width);
  }
};

// Some rows of one sequence x some query heads of one KV head. Query j: row j / heads, head head_begin + j % heads.
template <KvType kType, KvForm kForm>
class Tile {
 public:
  ESPALIER_ON_DEVICE Tile(const AttendTask& task, const Cut& cut)
      : t_(task), cut_(cut), room_{cut.capacity, cut.rows, cut.window, padded_head(task.dims.key)} {}

  // part: of the query heads of a KV head. kMost: queries of a subgroup.
  template <int kMost>
  ESPALIER_ON_DEVICE void compute(int first_row, int kv_head, int part, int piece) {
    if (simt::thread() == 0) {
      find_queries(first_row, kv_head, part);
      find_blocks(piece);
    }
    simt::meet();
    take_queries();
    for (window_ = facts().block_begin; window_ < facts().block_end; window_ += cut_.window) {
      const int left = facts().block_end - window_, count = left < cut_.window ? left : cut_.window;
      look_through(count);
      for (int from = 0; from < count;) {
        if (from > 0) simt::meet();
        const int to = end_of_places(from, count);
        if (place_count_ > 0) compute_blocks<kMost>(from, to);
        from = to;
      }
      if (in_pieces()) leave_out(count);
    }
    simt::meet();
    if (!in_pieces()) end();
  }

 private:
  ESPALIER_ON_DEVICE static TileFacts& facts() { return Room::facts(); }
  ESPALIER_ON_DEVICE bool in_pieces() const { return t_.pieces > 1; }
  ESPALIER_ON_DEVICE const QueryRow& row_of(int query) const { return facts().rows[facts().row_of[query]]; }
  ESPALIER_ON_DEVICE int head_of(int query) const { return facts().head_of[query]; }
  ESPALIER_ON_DEVICE int key_width() const { return padded_head(t_.dims.key); }
  ESPALIER_ON_DEVICE int value_width() const { return padded_head(t_.dims.value); }

  // --- what the tile is; by one thread ---

  ESPALIER_ON_DEVICE void find_queries(int first_row, int kv_head, int part) {
    TileFacts& f = facts();
    const int group = t_.heads / t_.kv_heads, left = group - part * cut_.heads;
    f.first_row = first_row;
    f.run_begin = t_.rows[first_row].run_begin;
    f.run_end = t_.rows[first_row].run_end;
    f.kv_head = kv_head;
    f.head_begin = kv_head * group + part * cut_.heads;
    f.heads = left < cut_.heads ? left : cut_.heads;
    f.row_count = 0;
    while (f.row_count < cut_.rows && first_row + f.row_count < t_.row_count &&
           belong_together(t_, cut_.rows, first_row, first_row + f.row_count)) {
      f.rows[f.row_count] = t_.rows[first_row + f.row_count].query;
      ++f.row_count;
    }
    f.queries = f.row_count * f.heads;
    f.of_subgroup = (f.queries + cut_.subgroups - 1) / cut_.subgroups;
    for (int query = 0; query < f.queries; ++query) {
      f.row_of[query] = query / f.heads;
      f.head_of[query] = f.head_begin + query % f.heads;
    }
  }
  ESPALIER_ON_DEVICE void find_blocks(int piece) {
    TileFacts& f = facts();
    int begin = first_block_of(f.rows[0]), end = end_block_of(f.rows[0]);
    for (int row = 1; row < f.row_count; ++row) {
      const int first = first_block_of(f.rows[row]), last = end_block_of(f.rows[row]);
      begin = first < begin ? first : begin;
      end = last > end ? last : end;
    }
    if (in_pieces()) {
      begin += piece * t_.blocks_each;
      const int here = begin + t_.blocks_each;
      if (piece + 1 < t_.pieces && here < end) end = here;  // the last piece takes what is left
    }
    f.block_begin = begin;
    f.block_end = end;
  }

  // --- queries ---

  ESPALIER_ON_DEVICE const float* state_of(int query) const { return t_.states.of(row_of(query).row, head_of(query)); }
  ESPALIER_ON_DEVICE bool begins_in_state() const { return t_.begin_in_state && !in_pieces(); }
  ESPALIER_ON_DEVICE void take_queries() {
    for (int query = simt::thread(); query < facts().queries; query += simt::threads()) {
      facts().maximum[query] = begins_in_state() ? state_of(query)[value_width()] : kNothing;
      facts().sum[query] = begins_in_state() ? state_of(query)[value_width() + 1] : 0.0f;
    }
    for (int query = 0; query < cut_.capacity; ++query) take_query(query);
  }
  // Its elements, times what a product of stored key and query is multiplied with; and where its fold stands.
  ESPALIER_ON_DEVICE void take_query(int query) {
    const float factor = t_.score.cap != 0.0f ? t_.score.scale / t_.score.cap : t_.score.scale * kLog2e;
    const bool there = query < facts().queries;
    const float* const from =
        there ? t_.q + row_of(query).row * t_.q_stride + std::int64_t{head_of(query)} * t_.dims.key : nullptr;
    for (int d = simt::thread(); d < key_width(); d += simt::threads())
      room_.queries()[d * room_.stride() + query] = there && d < t_.dims.key ? from[d] * factor : 0.0f;
    if (!there || !begins_in_state()) return;
    for (int e = simt::thread(); e < value_width(); e += simt::threads())
      room_.folded()[query * value_width() + e] = state_of(query)[e];
  }

  // --- places ---

  ESPALIER_ON_DEVICE std::uint64_t& row_bits(int block, int row, int word) const {
    return room_.row_bits()[(block * cut_.rows + row) * kWords + word];
  }
  // What is seen of `count` blocks from window_ on.
  ESPALIER_ON_DEVICE void look_through(int count) {
    const int rows = facts().row_count;
    ESPALIER_UNROLL(1)
    for (int i = simt::thread(); i < count * rows * kWords; i += simt::threads()) {
      const int word = i % kWords, row = i / kWords % rows, block = i / kWords / rows;
      row_bits(block, row, word) = seen_from(t_, facts().rows[row], facts().kv_head,
                                             std::int64_t{window_ + block} * kAttentionBlock + 64 * word);
    }
    simt::meet();
    ESPALIER_UNROLL(1)
    for (int i = simt::thread(); i < count; i += simt::threads()) {
      std::uint64_t low = 0, high = 0;
      for (int row = 0; row < rows; ++row) {
        low |= row_bits(i, row, 0);
        high |= row_bits(i, row, 1);
      }
      facts().seen[i][0] = low;
      facts().seen[i][1] = high;
      facts().counts[i] = simt::count_bits(low) + simt::count_bits(high);
    }
    simt::meet();
  }
  // As many blocks of the window from one on as there are places for; place_count_: that they take.
  ESPALIER_ON_DEVICE int end_of_places(int from, int count) {
    place_count_ = 0;
    for (; from < count && place_count_ + facts().counts[from] <= kAttentionBlock; ++from)
      place_count_ += facts().counts[from];
    return from;
  }
  // The place of a block's position 64 * word + bit, counted from the block's first one; -1: nobody sees it.
  ESPALIER_ON_DEVICE static int place_of(const std::uint64_t (&seen)[kWords], int word, int bit) {
    const std::uint64_t bits = seen[word];
    if ((bits >> bit & 1) == 0) return -1;
    return (word == 0 ? 0 : simt::count_bits(seen[0])) + simt::count_bits(bits & ((std::uint64_t{1} << bit) - 1));
  }
  ESPALIER_ON_DEVICE void find_places(int from, int to) {
    int first = 0;
    ESPALIER_UNROLL(1)
    for (int i = from; i < to; first += facts().counts[i++])
      for (int p = simt::thread(); p < kAttentionBlock; p += simt::threads())
        if (const int place = place_of(facts().seen[i], p / 64, p % 64); place >= 0) put_place(first + place, i, p);
  }
  ESPALIER_ON_DEVICE void put_place(int place, int block, int p) {
    const Slot slot =
        slots_.slot_of(t_.runs, facts().run_begin, facts().run_end, (window_ + block) * kAttentionBlock + p);
    const std::int64_t in_segment = slot % kSegmentSlots;
    facts().slots[place] = slot;
    if constexpr (kForm == KvForm::latent)
      facts().value_at[place] = static_cast<std::int64_t>(key_offset(t_.kv, facts().kv_head, slot)) +
                                in_segment * key_width() * element_bytes(kType);
    else
      facts().value_at[place] = static_cast<std::int64_t>(value_offset(t_.kv, facts().kv_head, slot)) +
                                in_segment * value_width() * element_bytes(kType);
    std::uint32_t seen_by = 0;
    ESPALIER_UNROLL(1)
    for (int row = 0; row < facts().row_count; ++row)
      if ((row_bits(block, row, p / 64) >> (p % 64) & 1) != 0) seen_by |= std::uint32_t{1} << row;
    facts().seen_by[place] = seen_by;
  }

  // --- blocks of positions ---

  // Blocks of the window. As few queries of a thread as all subgroups together need: what is computed for none takes
  // time.
  template <int kMost>
  ESPALIER_ON_DEVICE void compute_blocks(int from, int to) {
    find_places(from, to);
    simt::meet();
    if (facts().of_subgroup <= 4)
      score<4>();
    else if (kMost == 8 || facts().of_subgroup <= 8)
      score<8>();
    else
      score<kMost>();
    simt::meet();
    ESPALIER_UNROLL(1)
    for (int query = kernels::simt::row_part(); query < facts().queries; query += kernels::simt::row_parts())
      soften_blocks(query, from, to);
    simt::meet();
    if (facts().of_subgroup <= 4)
      weigh<4>(from, to);
    else if (kMost == 8 || facts().of_subgroup <= 8)
      weigh<8>(from, to);
    else
      weigh<kMost>(from, to);
  }

  ESPALIER_ON_DEVICE const std::byte* key_of(int place) const {
    if constexpr (kForm == KvForm::latent) return t_.kv.keys + facts().value_at[place];
    return key_at<kType, kForm>(t_.kv, facts().kv_head, facts().slots[place], key_width());
  }
  ESPALIER_ON_DEVICE float scale_of(const float* scales, int place) const {
    return scales[static_cast<std::size_t>(facts().kv_head) * t_.kv.head_scales +
                  static_cast<std::size_t>(facts().slots[place])];
  }

  // Two places of a thread, or the first of them twice.
  template <int kQueries>
  ESPALIER_ON_DEVICE void score() {
    const int query = simt::thread() / kSubgroup * kQueries, place = simt::thread() % kSubgroup;
    if (query >= facts().queries || place >= place_count_) return;
    const int second = place + kSubgroup < place_count_ ? place + kSubgroup : place;
    const std::byte* const keys[2] = {key_of(place), key_of(second)};
    float sums[kQueries][2];
    each<kQueries, 2>([&](auto j, auto i) { sums[j][i] = 0.0f; });
    add_products<kType, kForm, kQueries>(keys, room_.queries() + query, room_.stride(), key_width(), sums);
    put_scores<kQueries, 0>(place, query, sums);
    if (second != place) put_scores<kQueries, 1>(second, query, sums);
  }
  template <int kQueries, int kOf>
  ESPALIER_ON_DEVICE void put_scores(int place, int query, const float (&sums)[kQueries][2]) {
    auto* const to = reinterpret_cast<FourFloats*>(room_.weights() + place * room_.stride() + query);
    float scale = 1.0f;
    if constexpr (has_scales(kType)) scale = scale_of(t_.kv.key_scales, place);
    each<kQueries / 4>([&](auto j) {
      FourFloats four;
      each<4>([&](auto i) { four.x[i] = has_scales(kType) ? sums[4 * j + i][kOf] * scale : sums[4 * j + i][kOf]; });
      to[j] = four;
    });
  }

  ESPALIER_ON_DEVICE void soften_blocks(int query, int from, int to) {
    int first = 0;
    ESPALIER_UNROLL(1)
    for (int i = from; i < to; first += facts().counts[i++])
      if (facts().counts[i] > 0) soften(query, i, first);
  }
  // By sixteen threads: a query's scores of a block -> weights, their maximum and sum, each lane over its positions
  // in order. first: the place of the block's first one.
  ESPALIER_ON_DEVICE void soften(int query, int block, int first) {
    const std::uint64_t seen[kWords] = {facts().seen[block][0], facts().seen[block][1]};
    const int row = facts().row_of[query];
    int places[kLaneScores];
    float x[kLaneScores];
    each<kLaneScores>([&](auto i) {
      const int place = place_of(seen, i / 4, 16 * (i % 4) + Simd::lane());
      places[i] = place >= 0 ? first + place : -1;
    });
    if (t_.score.cap != 0.0f || t_.score.slopes != nullptr || t_.score.bias.values != nullptr)
      bend(query, block, first);
    each<kLaneScores>([&](auto i) {
      const bool sees = places[i] >= 0 && (facts().seen_by[places[i]] >> row & 1) != 0;
      x[i] = sees ? room_.weights()[places[i] * room_.stride() + query] : kNothing;
    });
    float top = x[0];
    each<kLaneScores - 1>([&](auto i) { top = Simd::max(top, x[i + 1]); });
    const float maximum = Simd::reduce_max(top);
    const float finite = maximum > -3.0e38f ? maximum : -3.0e38f;  // a query that sees nothing has weights of 0
    float total = 0.0f;
    each<kLaneScores>([&](auto i) {
      const float weight = exp2(x[i] - finite);
      total = total + weight;
      if (places[i] >= 0) put_weight(places[i], query, weight);
    });
    total = Simd::reduce_add(total);
    if (Simd::lane() == 0) fold_sum(query, block, maximum, total);
  }
  // The scale of a row of values goes into its weights.
  ESPALIER_ON_DEVICE void put_weight(int place, int query, float weight) {
    if constexpr (has_scales(kType))
      weight *= scale_of(kForm == KvForm::latent ? t_.kv.key_scales : t_.kv.value_scales, place);
    room_.weights()[place * room_.stride() + query] = weight;
  }
  // The lane's scores of a block: capped, then with what distance costs.
  ESPALIER_ON_DEVICE void bend(int query, int block, int first) {
    const std::int64_t behind = std::int64_t{window_ + block} * kAttentionBlock - row_of(query).position;
    ESPALIER_UNROLL(1)
    for (int i = 0; i < kLaneScores; ++i) {
      const int place = place_of(facts().seen[block], i / 4, 16 * (i % 4) + Simd::lane());
      if (place < 0) continue;
      float& score = room_.weights()[(first + place) * room_.stride() + query];
      score = bent(score, head_of(query), behind, 16 * i);
    }
  }
  // behind: from the query to the block's first position, negative for what lies before it.
  ESPALIER_ON_DEVICE float bent(float x, int head, std::int64_t behind, int sixteen) const {
    if (t_.score.cap != 0.0f) x = kernels::simt::tanh(x) * (t_.score.cap * kLog2e);
    if (t_.score.slopes != nullptr) {
      const float away = static_cast<float>(Simd::lane()) + (static_cast<float>(behind) + static_cast<float>(sixteen));
      x = fmaf(away, t_.score.slopes[head] * kLog2e, x);
    }
    if (t_.score.bias.values != nullptr) {
      const std::int64_t at = behind + sixteen, reach = t_.score.bias.reach;
      const std::int64_t held = at < -reach ? -reach : at > reach ? reach : at;
      const float* const biases = t_.score.bias.values + std::int64_t{head} * t_.score.bias.width();
      x = fmaf(biases[held + reach + Simd::lane()], kLog2e, x);
    }
    return x;
  }

  ESPALIER_ON_DEVICE BlockPart& part_of(int query, int block) const {
    return room_.parts()[block * cut_.capacity + query];
  }
  ESPALIER_ON_DEVICE void fold_sum(int query, int block, float maximum, float sum) {
    if (in_pieces()) return put_sum(query, block, maximum, sum);
    BlockPart& part = part_of(query, block);
    part.fold.added = -1.0f;
    if (maximum == kNothing) return;
    const Joined joined = join(facts().maximum[query], maximum);
    part.fold.kept = joined.kept;
    part.fold.added = joined.added;
    facts().sum[query] = join_sums(joined, facts().sum[query], sum);
    facts().maximum[query] = joined.maximum;
  }
  // A row's partials have room for the blocks that it reaches.
  ESPALIER_ON_DEVICE void put_sum(int query, int block, float maximum, float sum) {
    const QueryRow& row = row_of(query);
    const int number = window_ + block;
    part_of(query, block).partial = nullptr;
    if (number < first_block_of(row) || number >= end_block_of(row)) return;
    float* const to =
        partial_of(t_, facts().first_row + facts().row_of[query], number - first_block_of(row), head_of(query));
    to[value_width()] = maximum;
    to[value_width() + 1] = sum;
    if (maximum != kNothing) part_of(query, block).partial = to;
  }
  // Blocks of the window of which nobody sees anything.
  ESPALIER_ON_DEVICE void leave_out(int count) {
    for (int i = simt::thread(); i < count * facts().queries; i += simt::threads())
      if (facts().counts[i / facts().queries] == 0) put_sum(i % facts().queries, i / facts().queries, kNothing, 0.0f);
  }

  template <int kQueries>
  ESPALIER_ON_DEVICE void weigh(int from, int to) {
    if (value_width() > kSubgroup)
      weigh_by<kQueries, kSubgroup>(from, to);
    else
      weigh_by<kQueries / 2, kSubgroup / 2>(from, to);
  }
  // kThreads threads have the same queries, two elements at a time each.
  template <int kQueries, int kThreads>
  ESPALIER_ON_DEVICE void weigh_by(int from, int to) {
    const int query = simt::thread() / kThreads * kQueries;
    if (query >= facts().queries) return;
    for (int e = 2 * (simt::thread() % kThreads); e < value_width(); e += 2 * kThreads) {
      int first = 0;
      ESPALIER_UNROLL(1)
      for (int i = from; i < to; first += facts().counts[i++])
        if (facts().counts[i] > 0) weigh_block<kQueries>(query, i, first, e);
    }
  }
  template <int kQueries>
  ESPALIER_ON_DEVICE void weigh_block(int query, int block, int first, int element) {
    const std::byte* const values =
        (kForm == KvForm::latent ? t_.kv.keys : t_.kv.values) + element * element_bytes(kType);
    float sums[kQueries][2];
    each<kQueries, 2>([&](auto j, auto i) { sums[j][i] = 0.0f; });
    add_values<kType, kQueries>(values, facts().value_at + first, room_.weights() + first * room_.stride() + query,
                                room_.stride(), facts().counts[block], sums);
    if (in_pieces())
      each<kQueries>([&](auto j) { put_values(query + j, block, element, sums[j]); });
    else
      each<kQueries>([&](auto j) { fold_values(query + j, block, element, sums[j]); });
  }
  ESPALIER_ON_DEVICE void put_values(int query, int block, int element, const float (&values)[2]) {
    float* const to = query < facts().queries ? part_of(query, block).partial : nullptr;
    if (to == nullptr) return;
    to[element] = values[0];
    to[element + 1] = values[1];
  }
  ESPALIER_ON_DEVICE void fold_values(int query, int block, int element, const float (&values)[2]) {
    if (query >= facts().queries || part_of(query, block).fold.added < 0.0f) return;
    const auto [kept, added] = part_of(query, block).fold;
    float* const to = room_.folded() + query * value_width() + element;
    to[0] = join_values(kept, added, to[0], values[0]);
    to[1] = join_values(kept, added, to[1], values[1]);
  }

  ESPALIER_ON_DEVICE void end() {
    for (int query = 0; query < facts().queries; ++query)
      for (int e = simt::thread(); e < value_width(); e += simt::threads())
        finish(t_, row_of(query).row, head_of(query), e, facts().maximum[query], facts().sum[query],
               room_.folded()[query * value_width() + e]);
  }

  const AttendTask& t_;
  const Cut& cut_;
  Room room_;
  SlotFinder slots_;
  int window_ = 0;       // the block at which the window begins
  int place_count_ = 0;  // of the blocks at hand
};

// Grid: [pieces][rows, the last first: it sees most] x [KV heads][parts].
template <KvType kType, KvForm kForm, int kSubgroups>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kSubgroup* kSubgroups, 2) void attend_tile(AttendTask task, Cut cut) {
  const int row = task.row_count - 1 - simt::block_x() % task.row_count;
  if (!is_first(task, cut.rows, row)) return;
  Tile<kType, kForm> tile(task, cut);
  tile.template compute<kMostQueries / kSubgroups>(row, simt::block_y() / cut.parts, simt::block_y() % cut.parts,
                                                   simt::block_x() / task.row_count);
}
// The same of one subgroup with at most 8 queries, where memory is what it waits for: more of them side by side.
template <KvType kType, KvForm kForm>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kSubgroup, 8) void attend_row(AttendTask task, Cut cut) {
  const int row = simt::block_x() % task.row_count;
  Tile<kType, kForm> tile(task, cut);
  tile.template compute<8>(row, simt::block_y(), 0, simt::block_x() / task.row_count);
}

// --- launches ---

inline Room room_of(const AttendTask& t, const Cut& cut) {
  return {cut.capacity, cut.rows, cut.window, padded_head(t.dims.key)};
}
inline std::size_t room_bytes(const AttendTask& t, const Cut& cut) {
  return room_of(t, cut).bytes(padded_head(t.dims.value));
}

// Tiles of at most so many queries.
inline Cut cut_to(const AttendTask& t, int capacity, int subgroups) {
  const int group = t.heads / t.kv_heads, parts = (group + capacity - 1) / capacity,
            heads = (group + parts - 1) / parts;
  const bool masked = t.selection.words != nullptr || t.entry_stride > 1;
  Cut cut{.rows = subgroups == 1 ? 1 : capacity / heads,
          .heads = heads,
          .parts = parts,
          .capacity = capacity,
          .subgroups = subgroups,
          .window = 1};
  if (masked) cut.window = cut.rows <= 8 ? kMostWindow : 8;
  return cut;
}
// Many queries where rows of a sequence may share keys; those of one row where all decode: more blocks of threads.
inline Cut cut_of(const AttendTask& t) {
  constexpr std::size_t kFewBytes = 44 << 10, kMiddleBytes = 56 << 10, kManyBytes = 104 << 10;
  const int group = t.heads / t.kv_heads;
  const Cut alone = cut_to(t, group <= 4 ? 4 : 8, 1);
  if (t.sequence_rows == 1 && alone.parts == 1 && room_bytes(t, alone) <= kFewBytes) return alone;
  Cut cut = cut_to(t, 32, 2);
  if (room_bytes(t, cut) > kManyBytes) cut = cut_to(t, 16, 2);
  if (room_bytes(t, cut) > kMiddleBytes) cut.subgroups = 4;
  return cut;
}

template <KvType kType, KvForm kForm>
void attend_form(simt::Stream stream, const AttendTask& task) {
  const Cut cut = cut_of(task);
  const simt::Shape shape{.blocks_x = static_cast<unsigned>(task.row_count * (task.pieces > 1 ? task.pieces : 1)),
                          .blocks_y = static_cast<unsigned>(task.kv_heads * cut.parts),
                          .threads = static_cast<unsigned>(kSubgroup * cut.subgroups),
                          .shared_bytes = room_bytes(task, cut)};
  const auto kernel = cut.subgroups == 1   ? attend_row<kType, kForm>
                      : cut.subgroups == 2 ? attend_tile<kType, kForm, 2>
                                           : attend_tile<kType, kForm, 4>;
  simt::launch(stream, shape, kernel, task, cut);
}

template <KvType kType>
void attend_type(simt::Stream stream, const AttendTask& task) {
  if (task.kv.form == KvForm::latent)
    attend_form<kType, KvForm::latent>(stream, task);
  else
    attend_form<kType, KvForm::keys_and_values>(stream, task);
}

}  // namespace espalier::cuda::attention
