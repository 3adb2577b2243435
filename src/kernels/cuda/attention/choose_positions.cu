// choose_positions.cu: which positions sparse attention reads; see attention_task.h and
// kernels/attention/index_scores.h.
//
// One kernel scores: a thread computes two places of a row (entries, where they stand at every few positions only,
// else positions) against some heads at a time, each product a chain over the key's elements, the weighted sum a
// chain over heads. Another one chooses: a block of threads finds, digit by digit, the least score that is chosen,
// and where there are more of it than are wanted, the last place of them; then the bits are written.
#include "kernels/cuda/attention/attention_task.h"
//
#include "kernels/cuda/simt/simd.h"
//
#include "kernels/cuda/stored_elements.h"

namespace espalier::cuda {
namespace {

using kernels::simt::Simd;

constexpr int kScoreThreads = 64, kPlacesAtOnce = 2 * kScoreThreads;
constexpr int kPiecePlaces = 8 * kPlacesAtOnce;  // that a block of threads scores
constexpr int kChooseThreads = 256;
constexpr int kDigits = 16;  // of four bits

ESPALIER_EITHER constexpr int selections_of(const ChoosePositionsTask& t) {
  return t.each_head ? t.heads : 1;
}
// Of a row that sees so many positions.
ESPALIER_ON_DEVICE int scored_places(const ChoosePositionsTask& t, int seen) {
  return t.entry_stride > 1 ? seen / t.entry_stride : seen;
}

// --- scores ---

// A block's shared memory: weights [heads]; queries, some heads at a time, [key elements][stride].
struct ScoreRoom {
  int heads, held;  // all of them; how many heads' queries there is room for, a multiple of 16 or all, rounded up to 4
  ESPALIER_EITHER constexpr int stride() const { return held + 4; }
  ESPALIER_EITHER constexpr int padded_heads() const { return (heads + 3) / 4 * 4; }
  ESPALIER_ON_DEVICE static float* weights() { return simt::shared<float>(); }
  ESPALIER_ON_DEVICE float* queries() const { return weights() + padded_heads(); }
  constexpr std::size_t bytes(int key_width) const {
    return sizeof(float) * static_cast<std::size_t>(padded_heads() + key_width * stride());
  }
};

// One row's places, as many as are a block's.
template <KvType kType>
class Scorer {
 public:
  ESPALIER_ON_DEVICE Scorer(const ChoosePositionsTask& task, const ScoreRoom& room, int row_index)
      : t_(task),
        room_(room),
        row_(task.rows[row_index]),
        width_(padded_head(task.dim)),
        scores_(task.scores + std::int64_t{row_index} * selections_of(task) * task.score_stride) {}

  ESPALIER_ON_DEVICE void compute(int piece) {
    const int count = scored_places(t_, row_.query.last + 1), begin = piece * kPiecePlaces;
    if (begin >= count) return;
    const int end = begin + kPiecePlaces < count ? begin + kPiecePlaces : count;
    for (int i = simt::thread(); !t_.each_head && i < t_.heads; i += simt::threads())
      room_.weights()[i] = t_.weights[row_.query.row * t_.weight_stride + i];
    for (int head = 0; head < t_.heads; head += room_.held) {
      const int heads = t_.heads - head < room_.held ? t_.heads - head : room_.held;
      simt::meet();
      for (int i = 0; i < room_.held; ++i) take_query(i, head + i, i < heads);
      simt::meet();
      if (heads <= 4)
        score_all<4>(begin, end, head, heads);
      else if (heads <= 8)
        score_all<8>(begin, end, head, heads);
      else
        score_all<16>(begin, end, head, heads);
    }
  }

 private:
  ESPALIER_ON_DEVICE void take_query(int at, int head, bool there) {
    const float* const from = t_.q + row_.query.row * t_.q_stride + std::int64_t{head} * t_.dim;
    for (int d = simt::thread(); d < width_; d += simt::threads())
      room_.queries()[d * room_.stride() + at] = there && d < t_.dim ? from[d] * t_.scale : 0.0f;
  }
  // `heads` of them from `head` on, kHeads at a time.
  template <int kHeads>
  ESPALIER_ON_DEVICE void score_all(int begin, int end, int head, int heads) {
    SlotFinder slots;
    for (int place = begin + simt::thread(); place < end; place += kPlacesAtOnce) {
      const bool two = place + kScoreThreads < end;
      const int places[2] = {place, two ? place + kScoreThreads : place};
      Slot at[2];
      const std::byte* keys[2];
      float sums[2];
      each<2>([&](auto i) {
        at[i] = slots.slot_of(t_.runs, row_.run_begin, row_.run_end, position_of(places[i]));
        keys[i] = key_at<kType, KvForm::keys_and_values>(t_.kv, 0, at[i], width_);
        sums[i] = head == 0 || t_.each_head ? 0.0f : scores_[places[i]];
      });
      for (int h = 0; h < heads; h += kHeads) {
        float products[kHeads][2];
        each<kHeads, 2>([&](auto j, auto i) { products[j][i] = 0.0f; });
        add_products<kType, KvForm::keys_and_values, kHeads>(keys, room_.queries() + h, room_.stride(), width_,
                                                             products);
        scale(at, products);
        if (t_.each_head)
          each<kHeads>([&](auto j) { put(head + h + j, h + j < heads, places, products[j]); });
        else
          each<kHeads>([&](auto j) { add(head + h + j, h + j < heads, products[j], sums); });
      }
      if (!t_.each_head) put(0, true, places, sums);
    }
  }
  ESPALIER_ON_DEVICE int position_of(int place) const {
    return t_.entry_stride > 1 ? (place + 1) * t_.entry_stride - 1 : place;
  }
  template <int kHeads>
  ESPALIER_ON_DEVICE void scale(const Slot (&at)[2], float (&products)[kHeads][2]) const {
    if constexpr (has_scales(kType))
      each<2>([&](auto i) {
        const float factor = t_.kv.key_scales[at[i]];
        each<kHeads>([&](auto j) { products[j][i] = products[j][i] * factor; });
      });
  }
  ESPALIER_ON_DEVICE void add(int head, bool there, const float (&products)[2], float (&sums)[2]) const {
    if (!there) return;
    const float weight = room_.weights()[head];
    each<2>([&](auto i) { sums[i] = fmaf(weight, Simd::max(products[i], 0.0f), sums[i]); });
  }
  ESPALIER_ON_DEVICE void put(int selection, bool there, const int (&places)[2], const float (&scores)[2]) const {
    if (!there) return;
    float* const to = scores_ + selection * t_.score_stride;
    each<2>([&](auto i) { to[places[i]] = scores[i]; });  // the same twice where a thread has one place
  }

  const ChoosePositionsTask& t_;
  const ScoreRoom& room_;
  AttendedRow row_;
  int width_;
  float* scores_;
};

// Grid: rows x pieces.
template <KvType kType>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kScoreThreads, 8) void score_places(ChoosePositionsTask task, ScoreRoom room) {
  Scorer<kType> scorer(task, room, simt::block_x());
  scorer.compute(simt::block_y());
}

// --- choice ---

// Whole numbers in the order of the scores; -0 is 0, NaN the least.
ESPALIER_ON_DEVICE std::uint32_t rank_of(float score) {
  if (score != score) return 0;
  const std::uint32_t bits = kernels::simt::bits_of_float(score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// A block's shared memory.
struct Counts {
  int of_thread[kDigits][kChooseThreads];
  int all[kDigits];
};

// Chooses for one row and selection.
class Chooser {
 public:
  ESPALIER_ON_DEVICE Chooser(const ChoosePositionsTask& task, int row_index, int selection)
      : t_(task),
        row_(task.rows[row_index].query),
        scores_(task.scores + (std::int64_t{row_index} * selections_of(task) + selection) * task.score_stride),
        words_(task.words + row_.row * task.row_stride + selection * task.head_stride),
        seen_(row_.last + 1),
        places_(scored_places(task, seen_)) {}

  ESPALIER_ON_DEVICE void choose() {
    if (t_.entry_stride == 1) {
      if (t_.run > 1) take_best_of_runs();
      local_from_ = places_ - t_.local_runs;
    } else {
      local_from_ = places_;
    }
    find_least();
    write_words();
  }

 private:
  // A run's score is its highest, by the CPU's rule for NaN. Scores of runs go where those of earlier positions are,
  // which all threads have read.
  ESPALIER_ON_DEVICE void take_best_of_runs() {
    const int runs = (seen_ + t_.run - 1) / t_.run;
    for (int first = 0; first < runs; first += simt::threads()) {
      const int run = first + simt::thread();
      float best = 0.0f;
      if (run < runs) best = best_of(run);
      simt::meet();
      if (run < runs) scores_[run] = best;
      simt::meet();
    }
    places_ = runs;
  }
  ESPALIER_ON_DEVICE float best_of(int run) const {
    const int begin = run * t_.run, end = begin + t_.run < seen_ ? begin + t_.run : seen_;
    float best = scores_[begin];
    for (int p = begin + 1; p < end; ++p)
      if (best < scores_[p]) best = scores_[p];
    return best;
  }
  // The last runs come first.
  ESPALIER_ON_DEVICE std::uint32_t rank_at(int place, float score) const {
    return rank_of(place >= local_from_ ? __builtin_inff() : score);
  }

  // How many of the places have each digit, summed over all threads: digit(place, rank) is -1 for those that do not
  // count.
  template <class Digit>
  ESPALIER_ON_DEVICE void count(Digit digit) {
    Counts& counts = *simt::shared<Counts>();
    for (int d = 0; d < kDigits; ++d) counts.of_thread[d][simt::thread()] = 0;
    ESPALIER_UNROLL(2)
    for (int first = 4 * simt::thread(); first < places_; first += 4 * simt::threads()) {
      const FourFloats four = *reinterpret_cast<const FourFloats*>(scores_ + first);  // a row ends at a whole block
      each<4>([&](auto i) {
        const int place = first + i, d = place < places_ ? digit(place, rank_at(place, four.x[i])) : -1;
        if (d >= 0) ++counts.of_thread[d][simt::thread()];
      });
    }
    simt::meet();
    for (int d = kernels::simt::row_part(); d < kDigits; d += kernels::simt::row_parts()) {
      int sum = 0;
      for (int i = Simd::lane(); i < simt::threads(); i += 16) sum += counts.of_thread[d][i];
      for (int half = 8; half > 0; half /= 2) sum += simt::of_neighbour_xor<16>(sum, half);
      if (Simd::lane() == 0) counts.all[d] = sum;
    }
    simt::meet();
  }
  static ESPALIER_ON_DEVICE int counted(int digit) { return simt::shared<Counts>()->all[digit]; }

  // The least rank that is chosen, and up to which place those of this very rank are.
  ESPALIER_ON_DEVICE void find_least() {
    least_ = 0;
    last_place_ = places_;
    none_ = t_.top <= 0;
    if (none_ || t_.top >= places_) return;
    int left = t_.top;
    std::uint32_t known = 0;
    for (int shift = 28; shift >= 0; shift -= 4) {
      const std::uint32_t least = least_;
      count([&](int, std::uint32_t rank) {
        return (rank & known) == least ? static_cast<int>(rank >> shift & 15u) : -1;
      });
      std::uint32_t digit = 15;
      for (; counted(static_cast<int>(digit)) < left; --digit) left -= counted(static_cast<int>(digit));
      least_ |= digit << shift;
      known |= 15u << shift;
      if (counted(static_cast<int>(digit)) == left) return;  // all that begin like this
    }
    find_last_place(left);
  }
  // The place of the `left`th of the least rank.
  ESPALIER_ON_DEVICE void find_last_place(int left) {
    int shift = 0;
    while ((places_ - 1) >> shift > 15) shift += 4;
    int known = ~0 << shift << 4;
    const std::uint32_t least = least_;
    last_place_ = 0;
    for (; shift >= 0; shift -= 4) {
      const int last = last_place_;
      count([&](int place, std::uint32_t rank) {
        return (place & known) == last && rank == least ? place >> shift & 15 : -1;
      });
      int digit = 0;
      for (; counted(digit) < left; ++digit) left -= counted(digit);
      last_place_ |= digit << shift;
      known |= 15 << shift;
    }
  }
  ESPALIER_ON_DEVICE bool chosen(int place) const {
    if (none_ || place >= places_) return false;
    const std::uint32_t rank = rank_at(place, scores_[place]);
    return rank > least_ || (rank == least_ && place <= last_place_);
  }

  // The bits of positions.
  ESPALIER_ON_DEVICE bool sees(int p) const {
    if (p >= seen_) return false;
    const int stride = t_.entry_stride;
    if (stride == 1) return chosen(t_.run > 1 ? p / t_.run : p);
    const int place = p / stride;
    if (t_.run < stride) return p % stride == stride - 1 && chosen(place);
    return place == places_ || chosen(place);  // the positions behind the last entry stay
  }
  // By sixteen threads a word, four positions each.
  ESPALIER_ON_DEVICE void write_words() {
    const auto count = static_cast<int>(t_.head_stride > 0 ? t_.head_stride : t_.row_stride);
    for (int word = kernels::simt::row_part(); word < count; word += kernels::simt::row_parts()) {
      std::uint64_t bits = 0;
      for (int i = 0; i < 4; ++i) {
        const int at = 4 * Simd::lane() + i;
        if (sees(64 * word + at)) bits |= std::uint64_t{1} << at;
      }
      for (int half = 8; half > 0; half /= 2) bits |= simt::of_neighbour_xor<16>(bits, half);
      if (Simd::lane() == 0) words_[word] = bits;
    }
  }

  const ChoosePositionsTask& t_;
  QueryRow row_;
  float* scores_;
  std::uint64_t* words_;
  int seen_, places_, local_from_ = 0;  // places from local_from_ on come first
  std::uint32_t least_ = 0;
  int last_place_ = 0;
  bool none_ = false;
};

// Grid: rows x selections.
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(kChooseThreads) void choose_places(ChoosePositionsTask task) {
  Chooser chooser(task, simt::block_x(), simt::block_y());
  chooser.choose();
}

// --- launches ---

// As many heads' queries at a time as leave room for other blocks of threads beside this one.
ScoreRoom score_room(const ChoosePositionsTask& t) {
  constexpr std::size_t kMostBytes = 48 << 10;
  const int width = padded_head(t.dim);
  ScoreRoom room{t.heads, t.heads <= 8 ? (t.heads <= 4 ? 4 : 8) : (t.heads + 15) / 16 * 16};
  while (room.held > 16 && room.bytes(width) > kMostBytes) room.held = (room.held / 2 + 15) / 16 * 16;
  return room;
}

template <KvType kType>
void score(simt::Stream stream, const ChoosePositionsTask& task) {
  const ScoreRoom room = score_room(task);
  const std::int64_t places = task.score_stride / task.entry_stride;
  simt::launch(stream,
               {.blocks_x = static_cast<unsigned>(task.row_count),
                .blocks_y = static_cast<unsigned>((places + kPiecePlaces - 1) / kPiecePlaces),
                .threads = kScoreThreads,
                .shared_bytes = room.bytes(padded_head(task.dim))},
               score_places<kType>, task, room);
}
void score_type(simt::Stream stream, const ChoosePositionsTask& task) {
  switch (task.kv.type) {
    case KvType::f32:
      return score<KvType::f32>(stream, task);
    case KvType::bf16:
      return score<KvType::bf16>(stream, task);
    case KvType::f16:
      return score<KvType::f16>(stream, task);
    case KvType::i8:
      return score<KvType::i8>(stream, task);
    case KvType::f8_e4m3:
      return score<KvType::f8_e4m3>(stream, task);
    case KvType::f8_e5m2:
      return score<KvType::f8_e5m2>(stream, task);
  }
}

}  // namespace

void choose_positions(simt::Stream stream, const ChoosePositionsTask& task) {
  score_type(stream, task);
  simt::launch(stream,
               {.blocks_x = static_cast<unsigned>(task.row_count),
                .blocks_y = static_cast<unsigned>(selections_of(task)),
                .threads = kChooseThreads,
                .shared_bytes = sizeof(Counts)},
               choose_places, task);
}

}  // namespace espalier::cuda
