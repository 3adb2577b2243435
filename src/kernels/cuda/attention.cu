// attention.cu: attention of a ragged batch; see attention_task.h.
//
// A block of threads has a tile: some rows of one sequence x query heads that share a KV head, so that keys and values are
// read once for all of them. Its threads stand in subgroups of 64, each for some of the tile's queries. Of a block of
// positions, a thread computes the scores of two positions, a chain over the key's elements; sixteen threads make a
// query's weights, lane by lane as on a CPU; a thread computes two elements of weighted values, a chain over positions.
// Only positions that a row of the tile sees are located and read. Queries, scores and folds lie in shared memory.
#include "kernels/cuda/attention_task.h"
//
#include "kernels/cuda/simt/simd.h"
//
#include "kernels/cpu/generic/hyperbolic.h"
#include "kernels/cuda/stored_elements.h"

namespace espalier::cuda {
namespace {

using kernels::simt::exp2;
using kernels::simt::Simd;

constexpr float kNothing = -__builtin_inff();  // the maximum of a query that has seen nothing
constexpr float kLog2e = 1.44269504088896340736f;
constexpr int kSubgroup = 64;
constexpr int kWords = kAttentionBlock / 64;
constexpr int kLaneScores = kAttentionBlock / 16;  // of a query and block, what one of sixteen threads has

// How the queries of a task are cut into tiles.
struct Cut {
  int rows, heads;  // of a tile, at most
  int parts;        // tiles that the query heads of a KV head take
  int capacity;     // queries of a tile there is room for; a multiple of 4 * subgroups
  int subgroups;
};

// --- shared memory ---

// What a tile keeps there. Places are those of the positions that some row sees, in order.
struct TileFacts {
  static constexpr int kMostQueries = 32;
  std::int64_t value_at[kAttentionBlock];     // of places: bytes from the values to the row
  std::uint64_t seen[kMostQueries * kWords];  // [rows][kWords], bits of positions
  QueryRow rows[kMostQueries];
  Slot slots[kAttentionBlock];  // of places
  int place[kAttentionBlock];   // of positions; -1: nobody sees it
  // Of queries: which of the tile's rows, which head of all; the folds; factors of the fold and of a block's part, added < 0:
  // nothing is seen of the block; with pieces, where the block's part goes, null: nowhere.
  int row_of[kMostQueries], head_of[kMostQueries];
  float maximum[kMostQueries], sum[kMostQueries], kept[kMostQueries], added[kMostQueries];
  float* partial[kMostQueries];
};
// Floats behind it: weights, first the scores, [places][stride]; queries [key elements][stride]; folded values
// [queries][value elements]. The stride lets threads that go over elements or places meet different banks.
struct Room {
  int capacity, key_width;
  ESPALIER_EITHER constexpr int stride() const { return capacity + 4; }
  ESPALIER_ON_DEVICE static TileFacts& facts() { return *simt::shared<TileFacts>(); }
  ESPALIER_ON_DEVICE static float* weights() { return reinterpret_cast<float*>(simt::shared<TileFacts>() + 1); }
  ESPALIER_ON_DEVICE float* queries() const { return weights() + kAttentionBlock * stride(); }
  ESPALIER_ON_DEVICE float* folded() const { return weights() + (kAttentionBlock + key_width) * stride(); }
  constexpr std::size_t bytes(int value_width) const {
    return sizeof(TileFacts) +
           sizeof(float) * static_cast<std::size_t>((kAttentionBlock + key_width) * stride() + capacity * value_width);
  }
};
static_assert(sizeof(TileFacts) % 16 == 0);

// --- folds ---

// Factors of what is folded and of what a block adds, and the maximum of both.
struct Joined {
  float kept, added, maximum;
};
ESPALIER_ON_DEVICE Joined join(float so_far, float of_block) {
  constexpr float kNone = -3.0e38f;  // in place of -inf, so that differences stay numbers
  const float before = Simd::max(so_far, kNone), now = Simd::max(of_block, kNone), top = Simd::max(before, now);
  return {exp2(before - top), exp2(now - top), Simd::max(so_far, of_block)};
}
ESPALIER_ON_DEVICE float join_sums(const Joined& joined, float so_far, float of_block) {
  return fmaf(of_block, joined.added, so_far * joined.kept);
}
// What is there first is not used.
ESPALIER_ON_DEVICE float join_values(float kept, float added, float so_far, float of_block) {
  return fmaf(of_block, added, kept == 0.0f ? 0.0f : so_far * kept);
}

// The end of a query's fold, of one element of its value.
ESPALIER_ON_DEVICE void finish(const AttendTask& t, int row, int head, int element, float maximum, float sum,
                               float folded) {
  const bool nothing = maximum == kNothing;
  float value = nothing ? 0.0f : folded;
  if (t.end_in_state) {
    float* const to = t.states.of(row, head);
    to[element] = value;
    if (element != 0) return;
    to[padded_head(t.dims.value)] = maximum;
    to[padded_head(t.dims.value) + 1] = sum;
    return;
  }
  if (element >= t.dims.value) return;
  if (t.sinks != nullptr && !nothing) {  // as a block of one position whose value is zero
    const float logit = t.sinks[head] * kLog2e, top = logit > maximum ? logit : maximum;
    const float of_sink = exp2(logit - top), of_rest = exp2(maximum - top);
    sum = sum * of_rest + of_sink;
    value = value * of_rest;
  }
  t.out[row * t.out_stride + std::int64_t{head} * t.dims.value + element] = value / (nothing ? 1.0f : sum);
}

// --- partials ---

ESPALIER_ON_DEVICE int first_block_of(const QueryRow& row) {
  return row.first < 0 ? 0 : row.first / kAttentionBlock;
}
ESPALIER_ON_DEVICE int end_block_of(const QueryRow& row) {
  return row.last < 0 ? 0 : row.last / kAttentionBlock + 1;
}
ESPALIER_ON_DEVICE float* partial_of(const AttendTask& t, int row_index, int block, int head) {
  const std::int64_t blocks = std::int64_t{t.pieces} * t.blocks_each;
  return t.partials + ((row_index * blocks + block) * t.heads + head) * FoldStates::stride_of(t.dims.value);
}

// --- which positions are seen ---

ESPALIER_ON_DEVICE std::uint64_t bits_from(std::int64_t bit) {
  return bit <= 0 ? ~std::uint64_t{0} : bit >= 64 ? 0 : ~std::uint64_t{0} << bit;
}
ESPALIER_ON_DEVICE int count_bits(std::uint64_t bits) {
  return __builtin_popcountll(bits);
}
// Positions of these 64 that hold entries.
ESPALIER_ON_DEVICE std::uint64_t entries_from(std::int64_t start, int stride) {
  if (stride <= 1) return ~std::uint64_t{0};
  std::uint64_t bits = 0;
  for (std::int64_t p = (start / stride + 1) * stride - 1; p < start + 64; p += stride)
    bits |= std::uint64_t{1} << (p - start);
  return bits;
}
ESPALIER_ON_DEVICE std::uint64_t seen_from(const AttendTask& t, const QueryRow& row, int kv_head, std::int64_t start) {
  std::uint64_t bits = bits_from(row.first - start) & ~bits_from(row.last + std::int64_t{1} - start);
  if (bits == 0) return 0;
  bits &= entries_from(start, t.entry_stride);
  if (t.selection.words != nullptr && bits != 0) bits &= t.selection.of(row.row, kv_head)[start / 64];
  return bits;
}

// --- tiles ---

// Some rows of one sequence x some query heads of one KV head. Query j: row j / heads, head head_begin + j % heads.
template <KvType kType, KvForm kForm>
class Tile {
 public:
  ESPALIER_ON_DEVICE Tile(const AttendTask& task, const Cut& cut, int first_row, int part)
      : t_(task),
        cut_(cut),
        key_width_(padded_head(task.dims.key)),
        value_width_(padded_head(task.dims.value)),
        first_row_(first_row),
        kv_head_(part / cut.parts),
        room_{cut.capacity, key_width_},
        slots_(task.runs, task.rows[first_row].run_begin, task.rows[first_row].run_end) {
    const int group = t_.heads / t_.kv_heads, from = part % cut.parts * cut.heads;
    head_begin_ = kv_head_ * group + from;
    heads_ = group - from < cut.heads ? group - from : cut.heads;
    row_count_ = count_rows();
    queries_ = row_count_ * heads_;
  }

  // Rows of one sequence whose positions share a multiple of cut.rows are a tile's; the first of them computes it.
  ESPALIER_ON_DEVICE bool is_first() const {
    int before = 0;
    while (first_row_ - before > 0 && belong_together(first_row_ - before - 1, first_row_)) ++before;
    return before % cut_.rows == 0 && heads_ > 0;
  }
  // kMost: queries of a subgroup.
  template <int kMost>
  ESPALIER_ON_DEVICE void compute(int piece) {
    begin();
    take_blocks(piece);
    for (int block = block_begin_; block < block_end_; ++block) {
      find_seen(block);
      if (count_ > 0)
        compute_block<kMost>(block);
      else if (in_pieces())
        leave_out(block);
      simt::meet();
    }
    if (!in_pieces()) end();
  }

 private:
  ESPALIER_ON_DEVICE static TileFacts& facts() { return Room::facts(); }
  ESPALIER_ON_DEVICE bool in_pieces() const { return t_.pieces > 1; }
  ESPALIER_ON_DEVICE const QueryRow& row_of(int query) const { return facts().rows[facts().row_of[query]]; }
  ESPALIER_ON_DEVICE int head_of(int query) const { return facts().head_of[query]; }

  ESPALIER_ON_DEVICE bool belong_together(int a, int b) const {
    const AttendedRow &x = t_.rows[a], &y = t_.rows[b];
    return x.run_begin == y.run_begin && x.run_end == y.run_end &&
           x.query.position / cut_.rows == y.query.position / cut_.rows;
  }
  ESPALIER_ON_DEVICE int count_rows() const {
    int count = 1;
    while (count < cut_.rows && first_row_ + count < t_.row_count && belong_together(first_row_, first_row_ + count))
      ++count;
    return count;
  }

  ESPALIER_ON_DEVICE void begin() {
    if (simt::thread() < row_count_) facts().rows[simt::thread()] = t_.rows[first_row_ + simt::thread()].query;
    simt::meet();
    for (int query = simt::thread(); query < queries_; query += simt::threads()) begin_fold(query);
    simt::meet();
    for (int query = 0; query < cut_.capacity; ++query) take_query(query);
    simt::meet();
  }
  ESPALIER_ON_DEVICE const float* state_of(int query) const { return t_.states.of(row_of(query).row, head_of(query)); }
  ESPALIER_ON_DEVICE bool begins_in_state() const { return t_.begin_in_state && !in_pieces(); }
  ESPALIER_ON_DEVICE void begin_fold(int query) {
    facts().row_of[query] = query / heads_;
    facts().head_of[query] = head_begin_ + query % heads_;
    facts().maximum[query] = begins_in_state() ? state_of(query)[value_width_] : kNothing;
    facts().sum[query] = begins_in_state() ? state_of(query)[value_width_ + 1] : 0.0f;
  }
  // Its elements, times what a product of stored key and query is multiplied with; and where its fold stands.
  ESPALIER_ON_DEVICE void take_query(int query) {
    const float factor = t_.score.cap != 0.0f ? t_.score.scale / t_.score.cap : t_.score.scale * kLog2e;
    const bool there = query < queries_;
    const float* const from =
        there ? t_.q + row_of(query).row * t_.q_stride + std::int64_t{head_of(query)} * t_.dims.key : nullptr;
    for (int d = simt::thread(); d < key_width_; d += simt::threads())
      room_.queries()[d * room_.stride() + query] = there && d < t_.dims.key ? from[d] * factor : 0.0f;
    if (!there || !begins_in_state()) return;
    for (int e = simt::thread(); e < value_width_; e += simt::threads())
      room_.folded()[query * value_width_ + e] = state_of(query)[e];
  }
  // Those that some row reaches, or a piece's share of them.
  ESPALIER_ON_DEVICE void take_blocks(int piece) {
    block_begin_ = first_block_of(facts().rows[0]);
    block_end_ = end_block_of(facts().rows[0]);
    for (int row = 1; row < row_count_; ++row) {
      const int first = first_block_of(facts().rows[row]), end = end_block_of(facts().rows[row]);
      block_begin_ = first < block_begin_ ? first : block_begin_;
      block_end_ = end > block_end_ ? end : block_end_;
    }
    if (!in_pieces()) return;
    block_begin_ += piece * t_.blocks_each;
    const int end = block_begin_ + t_.blocks_each;
    if (piece + 1 < t_.pieces && end < block_end_) block_end_ = end;  // the last piece takes what is left
  }

  // As few queries of a thread as all subgroups together need: what is computed for none takes time.
  template <int kMost>
  ESPALIER_ON_DEVICE void compute_block(int block) {
    const int of_each = (queries_ + cut_.subgroups - 1) / cut_.subgroups;
    find_places(block);
    simt::meet();
    if (of_each <= 4)
      score<4>();
    else if (kMost == 8 || of_each <= 8)
      score<8>();
    else
      score<kMost>();
    simt::meet();
    ESPALIER_UNROLL(1)
    for (int query = kernels::simt::row_part(); query < queries_; query += kernels::simt::row_parts())
      soften(query, block);
    simt::meet();
    if (of_each <= 4)
      weigh<4>();
    else if (kMost == 8 || of_each <= 8)
      weigh<8>();
    else
      weigh<kMost>();
  }

  ESPALIER_ON_DEVICE void find_seen(int block) {
    const std::int64_t start = std::int64_t{block} * kAttentionBlock;
    for (int i = simt::thread(); i < row_count_ * kWords; i += simt::threads())
      facts().seen[i] = seen_from(t_, facts().rows[i / kWords], kv_head_, start + 64 * (i % kWords));
    simt::meet();
    std::uint64_t low = 0, high = 0;
    for (int row = 0; row < row_count_; ++row) {
      low |= facts().seen[row * kWords];
      high |= facts().seen[row * kWords + 1];
    }
    low_ = low;
    high_ = high;
    count_ = count_bits(low) + count_bits(high);
  }
  // Of positions that somebody sees.
  ESPALIER_ON_DEVICE int place_of(int p) const {
    const std::uint64_t word = p < 64 ? low_ : high_;
    if ((word >> (p % 64) & 1) == 0) return -1;
    return (p < 64 ? 0 : count_bits(low_)) + count_bits(word & ((std::uint64_t{1} << (p % 64)) - 1));
  }
  ESPALIER_ON_DEVICE void find_places(int block) {
    for (int p = simt::thread(); p < kAttentionBlock; p += simt::threads()) {
      const int place = place_of(p);
      facts().place[p] = place;
      if (place < 0) continue;
      const Slot slot = slots_.slot_of(block * kAttentionBlock + p);
      const std::int64_t in_segment = slot % kSegmentSlots;
      facts().slots[place] = slot;
      if constexpr (kForm == KvForm::latent)
        facts().value_at[place] = static_cast<std::int64_t>(key_offset(t_.kv, kv_head_, slot)) +
                                  in_segment * key_width_ * element_bytes(kType);
      else
        facts().value_at[place] = static_cast<std::int64_t>(value_offset(t_.kv, kv_head_, slot)) +
                                  in_segment * value_width_ * element_bytes(kType);
    }
  }

  ESPALIER_ON_DEVICE const std::byte* key_of(int place) const {
    if constexpr (kForm == KvForm::latent) return t_.kv.keys + facts().value_at[place];
    return key_at<kType, kForm>(t_.kv, kv_head_, facts().slots[place], key_width_);
  }
  ESPALIER_ON_DEVICE float scale_of(const float* scales, int place) const {
    return scales[static_cast<std::size_t>(kv_head_) * t_.kv.head_scales +
                  static_cast<std::size_t>(facts().slots[place])];
  }

  // Two places of a thread, or the first of them twice.
  template <int kQueries>
  ESPALIER_ON_DEVICE void score() {
    const int query = simt::thread() / kSubgroup * kQueries, place = simt::thread() % kSubgroup;
    if (query >= queries_ || place >= count_) return;
    const int second = place + kSubgroup < count_ ? place + kSubgroup : place;
    const std::byte* const keys[2] = {key_of(place), key_of(second)};
    float sums[kQueries][2];
    each<kQueries, 2>([&](auto j, auto i) { sums[j][i] = 0.0f; });
    add_products<kType, kForm, kQueries>(keys, room_.queries() + query, room_.stride(), key_width_, sums);
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

  // By sixteen threads: a query's scores -> weights, their maximum and sum, each lane over its positions in order.
  ESPALIER_ON_DEVICE void soften(int query, int block) {
    const std::uint64_t* const seen = facts().seen + facts().row_of[query] * kWords;
    const auto sees = [&](int p) { return (seen[p / 64] >> (p % 64) & 1) != 0; };
    if (t_.score.cap != 0.0f || t_.score.slopes != nullptr || t_.score.bias.values != nullptr) {
      ESPALIER_UNROLL(1)
      for (int i = 0; i < kLaneScores; ++i)
        if (sees(16 * i + Simd::lane())) bend(query, block, i);
    }
    float x[kLaneScores];
    each<kLaneScores>([&](auto i) {
      const int p = 16 * i + Simd::lane();
      x[i] = sees(p) ? room_.weights()[facts().place[p] * room_.stride() + query] : kNothing;
    });
    float top = x[0];
    each<kLaneScores - 1>([&](auto i) { top = Simd::max(top, x[i + 1]); });
    const float maximum = Simd::reduce_max(top);
    const float finite = maximum > -3.0e38f ? maximum : -3.0e38f;  // a query that sees nothing has weights of 0
    float total = 0.0f;
    each<kLaneScores>([&](auto i) {
      const float weight = exp2(x[i] - finite);
      total = total + weight;
      put_weight(16 * i + Simd::lane(), query, weight);
    });
    total = Simd::reduce_add(total);
    if (Simd::lane() == 0) fold_sum(query, block, maximum, total);
  }
  // The scale of a row of values goes into its weights.
  ESPALIER_ON_DEVICE void put_weight(int p, int query, float weight) {
    const int place = facts().place[p];
    if (place < 0) return;
    if constexpr (has_scales(kType))
      weight *= scale_of(kForm == KvForm::latent ? t_.kv.key_scales : t_.kv.value_scales, place);
    room_.weights()[place * room_.stride() + query] = weight;
  }
  // The score of position 16 * sixteen + lane of a block: capped, then with what distance costs.
  ESPALIER_ON_DEVICE void bend(int query, int block, int sixteen) {
    float& score = room_.weights()[facts().place[16 * sixteen + Simd::lane()] * room_.stride() + query];
    const int head = head_of(query);
    const std::int64_t behind = std::int64_t{block} * kAttentionBlock - row_of(query).position;
    float x = score;
    if (t_.score.cap != 0.0f) x = kernels::simt::tanh(x) * (t_.score.cap * kLog2e);
    if (t_.score.slopes != nullptr) {
      const float away =
          static_cast<float>(Simd::lane()) + (static_cast<float>(behind) + static_cast<float>(16 * sixteen));
      x = fmaf(away, t_.score.slopes[head] * kLog2e, x);
    }
    if (t_.score.bias.values != nullptr) {
      const std::int64_t at = behind + 16 * sixteen, reach = t_.score.bias.reach;
      const std::int64_t held = at < -reach ? -reach : at > reach ? reach : at;
      const float* const biases = t_.score.bias.values + std::int64_t{head} * t_.score.bias.width();
      x = fmaf(biases[held + reach + Simd::lane()], kLog2e, x);
    }
    score = x;
  }
  ESPALIER_ON_DEVICE void fold_sum(int query, int block, float maximum, float sum) {
    if (in_pieces()) return put_sum(query, block, maximum, sum);
    facts().added[query] = -1.0f;
    if (maximum == kNothing) return;
    const Joined joined = join(facts().maximum[query], maximum);
    facts().kept[query] = joined.kept;
    facts().added[query] = joined.added;
    facts().sum[query] = join_sums(joined, facts().sum[query], sum);
    facts().maximum[query] = joined.maximum;
  }
  // A row's partials have room for the blocks that it reaches.
  ESPALIER_ON_DEVICE void put_sum(int query, int block, float maximum, float sum) {
    const QueryRow& row = row_of(query);
    facts().partial[query] = nullptr;
    if (block < first_block_of(row) || block >= end_block_of(row)) return;
    float* const to = partial_of(t_, first_row_ + facts().row_of[query], block - first_block_of(row), head_of(query));
    to[value_width_] = maximum;
    to[value_width_ + 1] = sum;
    if (maximum != kNothing) facts().partial[query] = to;
  }
  ESPALIER_ON_DEVICE void leave_out(int block) {
    for (int query = simt::thread(); query < queries_; query += simt::threads()) put_sum(query, block, kNothing, 0.0f);
  }

  template <int kQueries>
  ESPALIER_ON_DEVICE void weigh() {
    if (value_width_ > kSubgroup)
      weigh_by<kQueries, kSubgroup>();
    else
      weigh_by<kQueries / 2, kSubgroup / 2>();
  }
  // kThreads threads have the same queries, two elements at a time each.
  template <int kQueries, int kThreads>
  ESPALIER_ON_DEVICE void weigh_by() {
    const std::byte* const values = kForm == KvForm::latent ? t_.kv.keys : t_.kv.values;
    const int query = simt::thread() / kThreads * kQueries;
    if (query >= queries_) return;
    for (int e = 2 * (simt::thread() % kThreads); e < value_width_; e += 2 * kThreads) {
      float sums[kQueries][2];
      each<kQueries, 2>([&](auto j, auto i) { sums[j][i] = 0.0f; });
      add_values<kType, kQueries>(values + e * element_bytes(kType), facts().value_at, room_.weights() + query,
                                  room_.stride(), count_, sums);
      if (in_pieces())
        each<kQueries>([&](auto j) { put_values(query + j, e, sums[j]); });
      else
        each<kQueries>([&](auto j) { fold_values(query + j, e, sums[j]); });
    }
  }
  ESPALIER_ON_DEVICE void put_values(int query, int element, const float (&values)[2]) {
    float* const to = query < queries_ ? facts().partial[query] : nullptr;
    if (to == nullptr) return;
    to[element] = values[0];
    to[element + 1] = values[1];
  }
  ESPALIER_ON_DEVICE void fold_values(int query, int element, const float (&values)[2]) {
    if (query >= queries_ || facts().added[query] < 0.0f) return;
    const float kept = facts().kept[query], added = facts().added[query];
    float* const to = room_.folded() + query * value_width_ + element;
    to[0] = join_values(kept, added, to[0], values[0]);
    to[1] = join_values(kept, added, to[1], values[1]);
  }

  ESPALIER_ON_DEVICE void end() {
    for (int query = 0; query < queries_; ++query)
      for (int e = simt::thread(); e < value_width_; e += simt::threads())
        finish(t_, row_of(query).row, head_of(query), e, facts().maximum[query], facts().sum[query],
               room_.folded()[query * value_width_ + e]);
  }

  const AttendTask& t_;
  const Cut& cut_;
  int key_width_, value_width_;  // rounded up to 16
  int first_row_, row_count_ = 0;
  int kv_head_, head_begin_ = 0, heads_ = 0, queries_ = 0;
  int block_begin_ = 0, block_end_ = 0;
  std::uint64_t low_ = 0, high_ = 0;  // positions of the block that some row sees
  int count_ = 0;                     // of them
  Room room_;
  SlotFinder slots_;
};

// Grid: [pieces][rows, the last first: it sees most] x [KV heads][parts].
template <KvType kType, KvForm kForm>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(256, 2) void attend_tile(AttendTask task, Cut cut) {
  const int row = task.row_count - 1 - simt::block_x() % task.row_count;
  Tile<kType, kForm> tile(task, cut, row, simt::block_y());
  if (tile.is_first()) tile.template compute<16>(simt::block_x() / task.row_count);
}
// The same of one subgroup with at most 8 queries, where memory is what it waits for: more of them side by side.
template <KvType kType, KvForm kForm>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kSubgroup, 9) void attend_row(AttendTask task, Cut cut) {
  Tile<kType, kForm> tile(task, cut, simt::block_x() % task.row_count, simt::block_y());
  tile.template compute<8>(simt::block_x() / task.row_count);
}

// Grid: rows x query heads.
ESPALIER_GLOBAL void merge_pieces(AttendTask task) {
  constexpr int kTogether = 8;
  const QueryRow row = task.rows[simt::block_x()].query;
  const int head = simt::block_y(), width = padded_head(task.dims.value);
  const int blocks = end_block_of(row) - first_block_of(row);
  const std::int64_t step = std::int64_t{task.heads} * FoldStates::stride_of(task.dims.value);
  const float* const state = task.begin_in_state ? task.states.of(row.row, head) : nullptr;
  const float first_maximum = state != nullptr ? state[width] : kNothing,
              first_sum = state != nullptr ? state[width + 1] : 0.0f;
  simt::meet();  // before anybody writes where it ends
  for (int e = simt::thread(); e < width; e += simt::threads()) {
    float maximum = first_maximum, sum = first_sum, folded = state != nullptr ? state[e] : 0.0f;
    const float* from = partial_of(task, simt::block_x(), 0, head);
    for (int block = 0; block < blocks; block += kTogether, from += kTogether * step) {
      float maxima[kTogether], sums[kTogether], values[kTogether];
      each<kTogether>([&](auto i) {
        const bool there = block + i < blocks;
        const float* const part = from + (there ? i : 0) * step;
        maxima[i] = there ? part[width] : kNothing;
        sums[i] = part[width + 1];
        values[i] = part[e];
      });
      each<kTogether>([&](auto i) {
        if (maxima[i] == kNothing) return;
        const Joined joined = join(maximum, maxima[i]);
        folded = join_values(joined.kept, joined.added, folded, values[i]);
        sum = join_sums(joined, sum, sums[i]);
        maximum = joined.maximum;
      });
    }
    finish(task, row.row, head, e, maximum, sum, folded);
  }
}

// --- launches ---

// Tiles of many queries where rows of a sequence may share keys, of a row's where all decode: more blocks of threads.
Cut cut_of(const AttendTask& t) {
  constexpr std::size_t kFewBytes = 40 << 10, kMiddleBytes = 56 << 10, kManyBytes = 100 << 10;
  const int group = t.heads / t.kv_heads, key_width = padded_head(t.dims.key), value_width = padded_head(t.dims.value);
  const int alone = group <= 4 ? 4 : 8;
  if (t.sequence_rows == 1 && group <= alone && Room{alone, key_width}.bytes(value_width) <= kFewBytes)
    return {.rows = 1, .heads = group, .parts = 1, .capacity = alone, .subgroups = 1};
  const int capacity = Room{32, key_width}.bytes(value_width) <= kManyBytes ? 32 : 16;
  const int parts = (group + capacity - 1) / capacity, heads = (group + parts - 1) / parts;
  const int subgroups = Room{capacity, key_width}.bytes(value_width) <= kMiddleBytes ? 2 : 4;
  return {.rows = capacity / heads, .heads = heads, .parts = parts, .capacity = capacity, .subgroups = subgroups};
}

template <KvType kType, KvForm kForm>
void attend_form(simt::Stream stream, const AttendTask& task) {
  const Cut cut = cut_of(task);
  const simt::Shape shape{
      .blocks_x = static_cast<unsigned>(task.row_count * (task.pieces > 1 ? task.pieces : 1)),
      .blocks_y = static_cast<unsigned>(task.kv_heads * cut.parts),
      .threads = static_cast<unsigned>(kSubgroup * cut.subgroups),
      .shared_bytes = Room{cut.capacity, padded_head(task.dims.key)}.bytes(padded_head(task.dims.value))};
  simt::launch(stream, shape, cut.subgroups == 1 ? attend_row<kType, kForm> : attend_tile<kType, kForm>, task, cut);
}

template <KvType kType>
void attend_type(simt::Stream stream, const AttendTask& task) {
  if (task.kv.form == KvForm::latent)
    attend_form<kType, KvForm::latent>(stream, task);
  else
    attend_form<kType, KvForm::keys_and_values>(stream, task);
}

}  // namespace

void attend(simt::Stream stream, const AttendTask& task) {
  switch (task.kv.type) {
    case KvType::f32:
      return attend_type<KvType::f32>(stream, task);
    case KvType::bf16:
      return attend_type<KvType::bf16>(stream, task);
    case KvType::f16:
      return attend_type<KvType::f16>(stream, task);
    case KvType::i8:
      return attend_type<KvType::i8>(stream, task);
    case KvType::f8_e4m3:
      return attend_type<KvType::f8_e4m3>(stream, task);
    case KvType::f8_e5m2:
      return attend_type<KvType::f8_e5m2>(stream, task);
  }
}

void merge_attention(simt::Stream stream, const MergeAttentionTask& task) {
  const AttendTask& of = task.of;
  const int width = padded_head(of.dims.value), threads = width < 128 ? (width + 31) / 32 * 32 : 128;
  simt::launch(stream,
               {.blocks_x = static_cast<unsigned>(of.row_count),
                .blocks_y = static_cast<unsigned>(of.heads),
                .threads = static_cast<unsigned>(threads)},
               merge_pieces, of);
}

}  // namespace espalier::cuda
