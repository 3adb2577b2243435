// multiply_few.h: products of at most eight rows of bytes with panels of whole numbers, as quickly as memory gives the panels.
//
// A block of threads takes one panel, or a pair, and all of K, 512 values a round. Panels and rows stream to shared memory
// some rounds ahead. Four warps of a panel sum up four sub-blocks of 32 values each, exactly, in whichever order; what they put
// into shared memory, a thread for each sum folds in the order of K a round later. So there is one barrier a round.
// Rows of two bytes have a second pass, over the sub-blocks that are marked in one of the rows.
// All that a round does costs instructions, of which memory leaves time for about 200 a sub-block and multiprocessor (H200, four
// bits): what does not change from round to round is worked out before.
// Threads: a team of 128 threads and 16 for each row, for each panel. Fails: never.
#pragma once

#include "kernels/cuda/products/whole_numbers.h"
#include "kernels/cuda/simt/async_copy.h"

namespace espalier::cuda::few {

inline constexpr int kMostRows = 8, kSubs = 16, kSumWarps = 4, kEach = kSubs / kSumWarps;
inline constexpr int kPitch = 20;  // of a row's sixteen sums, so that a warp's go to different banks

// A block's shared memory: two sets of sums and factors, then kSlots stages of panels and rows.
template <class Format>
struct Layout {
  static constexpr int kWeights = kSubs / Format::kSubs * Format::kBytes;  // of a panel and a round
  static constexpr int kValues = kSubs * 32, kScales = kSubs * static_cast<int>(sizeof(ActivationScale));
  static constexpr int kRow = kValues + kScales + 16;
  static constexpr int kFactors = kSubs * Format::kGroups * 16;  // floats
  static constexpr int kFactorBytes = kFactors * (Format::kHasMinimum ? 2 : 1) * 4;
  // So many rounds ahead panels are asked for: about 16 KB of each.
  static constexpr int kWanted = 16 * 1024 / kWeights,
                       kAhead = kWanted < 2   ? 2
                                : kWanted > 6 ? 6
                                              : kWanted,
                       kSlots = kAhead + 2;
  int teams, rows, k;

  ESPALIER_EITHER int team_threads() const { return 32 * (kSumWarps + (rows + 1) / 2); }
  ESPALIER_EITHER int sum_bytes() const { return kSubs * Format::kGroups * rows * kPitch * 4; }
  ESPALIER_EITHER int stage() const { return teams * kWeights + rows * kRow; }
  ESPALIER_EITHER int set() const { return teams * (kFactorBytes + sum_bytes()); }
  ESPALIER_EITHER int list_bytes() const { return (k / 32 + 63) / 64 * 264; }  // of the second pass, instead of stages
  ESPALIER_EITHER int bytes() const { return 2 * set() + kSlots * stage(); }
};

// What a thread of it does.
template <class Format>
class Kernel {
 public:
  using Plan = Layout<Format>;
  using Read = kernels::fragments::Simd;
  ESPALIER_ON_DEVICE Kernel(const MultiplyWork& work, const Plan& plan, const BlockRows& rows)
      : t_(work.of),
        plan_(plan),
        rows_(rows),
        count_(rows.end - rows.begin),
        team_(simt::thread() < plan.team_threads() ? 0 : 1),
        of_team_(simt::thread() - team_ * plan.team_threads()),
        warp_(of_team_ >> 5),
        subs_(static_cast<int>(work.of.k / 32)),
        stage_(plan.stage()),
        set_(plan.set()),
        sums_up_(warp_ < kSumWarps),
        fold_row_((of_team_ - 32 * kSumWarps) / 16),
        folds_(!sums_up_ && fold_row_ < count_),
        row_sums_(plan.rows * kPitch * 4) {}

  ESPALIER_ON_DEVICE void run(bool two_bytes) {
    prepare_sums();
    pass_over_all();
    if (two_bytes) pass_over_marked();
    finish();
  }

 private:
  ESPALIER_ON_DEVICE static std::uint8_t* shared(int at) { return simt::shared<std::uint8_t>() + at; }
  ESPALIER_ON_DEVICE const std::uint8_t* panel() const {
    return rows_.panels +
           static_cast<std::size_t>(t_.panel_begin + simt::block_x() * plan_.teams + team_) * t_.panel_bytes;
  }
  ESPALIER_ON_DEVICE int next_slot(int slot) const { return slot + stage_ == plan_.bytes() ? 2 * set_ : slot + stage_; }
  // Of a set of sums: factors, then int [sub-block][group][row][kPitch].
  ESPALIER_ON_DEVICE int factors_of(int set) const { return set + team_ * (Plan::kFactorBytes + plan_.sum_bytes()); }

  // Slots and sets are places in shared memory. A round asks for what comes some rounds later, where the round before the last
  // one was.
  ESPALIER_ON_DEVICE void pass_over_all() {
    const int rounds = (subs_ + kSubs - 1) / kSubs;
    int asked = 2 * set_, slot = asked, slot_before = asked, set = 0;
    prepare_asking();
    for (int round = 0; round < Plan::kAhead; ++round, asked = next_slot(asked)) ask(round, rounds, asked);
    for (int round = 0; round <= rounds; ++round, asked = next_slot(asked)) {
      copies_.template wait<Plan::kAhead - 1>();
      simt::meet();
      ask(round + Plan::kAhead, rounds, asked);
      if (sums_up_) {
        if (round < rounds) sum_staged(slot, set);
      } else if (folds_ && round > 0) {
        const int left = subs_ - (round - 1) * kSubs;
        fold_staged(left < kSubs ? left : kSubs, slot_before, set_ - set);
      }
      slot_before = slot;
      slot = next_slot(slot);
      set = set_ - set;
    }
  }

  // Those who sum up ask for their panel, each for 16 bytes of 2 KB. Those who fold ask for their row: 16 bytes of the first
  // values, of the others, and a scale.
  static constexpr int kAskers = 32 * kSumWarps;
  ESPALIER_ON_DEVICE void prepare_asking() {
    if (sums_up_) {
      from_ = panel() + 16 * of_team_;
      left_ = subs_ / Format::kSubs * Format::kBytes - 16 * of_team_;
      to_ = simt::kept(team_ * Plan::kWeights + 16 * of_team_);
      return;
    }
    const ByteRows rows(t_, rows_.begin, false);
    const int i = simt::thread() & 15;
    from_ = rows.values(fold_row_, 0) + 16 * i;
    from_scales_ = reinterpret_cast<const std::uint8_t*>(&rows.scale(fold_row_, i));
    left_ = folds_ && team_ == 0 ? subs_ : 0;
    to_ = simt::kept(plan_.teams * Plan::kWeights + fold_row_ * Plan::kRow + 16 * i);
  }
  // In order of rounds.
  ESPALIER_ON_DEVICE void ask(int round, int rounds, int slot) {
    if (round < rounds) {
      std::uint8_t* const to = shared(slot + to_);
      if (sums_up_) {
        const int here = Plan::kWeights - 16 * of_team_, end = here < left_ ? here : left_;
        ESPALIER_UNROLL(8)
        for (int at = 0; at < Plan::kWeights; at += 16 * kAskers)
          if (at < end) copies_.copy16(to + at, from_ + at);
        from_ += Plan::kWeights;
        left_ -= Plan::kWeights;
      } else {
        const int i = simt::thread() & 15;
        if (i / 2 < left_) copies_.copy16(to, from_);
        if (8 + i / 2 < left_) copies_.copy16(to + 256, from_ + 256);
        if (i < left_) copies_.copy16(to + Plan::kValues, from_scales_);
        from_ += Plan::kValues;
        from_scales_ += Plan::kScales;
        left_ -= kSubs;
      }
    }
    copies_.commit();
  }

  // Where a thread that sums up reads in a slot, and where it writes in a set.
  static constexpr bool kOneBlock = Format::kSubs >= kEach;  // has all of a warp's sub-blocks
  ESPALIER_ON_DEVICE void prepare_sums() {
    const unsigned first = static_cast<unsigned>(kEach * warp_);
    const int g = simt::thread() >> 2 & 7, t = simt::thread() & 3, column = Read::column();
    const int factors = factors_of(0), first_sum = kEach * Format::kGroups * warp_;
    block_ = simt::kept(team_ * Plan::kWeights + static_cast<int>(first / Format::kSubs) * Format::kBytes);
    sub_ = simt::kept(kOneBlock ? static_cast<int>(first % Format::kSubs) : 0);
    values_ = simt::kept(plan_.teams * Plan::kWeights + (g < count_ ? g : 0) * Plan::kRow + 32 * kEach * warp_);
    factors_ = simt::kept(factors + (first_sum + t) * 64 + 4 * column);
    sums_ = simt::kept(factors + Plan::kFactorBytes + first_sum * row_sums_ + (2 * t * kPitch + column) * 4);
  }
  // Sub-blocks behind the last one are summed up too, whatever stands there, and nobody looks.
  ESPALIER_ON_DEVICE void sum_staged(int slot, int set) {
    const std::uint8_t* const block = shared(slot + block_);
    const std::uint8_t* const values = shared(slot + values_);
    sum_up(
        set, [&](int i) { return kOneBlock ? block : block + i / Format::kSubs * Format::kBytes; },
        [&](int i) { return kOneBlock ? sub_ + i : i % Format::kSubs; }, [&](int i) { return values + 32 * i; });
  }
  // What this warp's sub-blocks of a round give: the i-th is sub(i) of block(i), and meets values(i) of row g.
  template <class Block, class Sub, class Values>
  ESPALIER_ON_DEVICE void sum_up(int set, Block block, Sub sub, Values values) {
    constexpr int kGroups = Format::kGroups;
    const int t = simt::thread() & 3;
    PanelWords words[kEach];
    RowWords rows[kEach];
    Read::F scales[kGroups], minima[kGroups];
    ESPALIER_UNROLL(4)
    for (int i = 0; i < kEach; ++i) {
      words[i] = PanelWords::of<Format>(block(i), sub(i));
      rows[i] = RowWords::of(values(i));
    }
    ESPALIER_UNROLL(2)
    for (int n = 0; n < kGroups; ++n) {  // each t has other factors
      const int i = (4 * n + t) / kGroups, of = (4 * n + t) % kGroups;
      scales[n] = Format::scale(block(i), sub(i), of);
      if constexpr (Format::kHasMinimum) minima[n] = Format::minimum(block(i), sub(i), of);
    }
    int sums[kEach][kGroups][4] = {};
    ESPALIER_UNROLL(4)
    for (int i = 0; i < kEach; ++i) {
      ESPALIER_UNROLL(2)
      for (int of = 0; of < kGroups; ++of) add_products<Format>(sums[i][of], words[i], rows[i], of);
    }
    ESPALIER_UNROLL(2)
    for (int n = 0; n < kGroups; ++n) {
      auto* const to = reinterpret_cast<Read::F*>(shared(set + factors_ + n * 256));
      to[0] = scales[n];
      if constexpr (Format::kHasMinimum) to[Plan::kFactors / 2] = minima[n];
    }
    store_sums(set + sums_, 2 * t < count_, sums, 0);
    store_sums(set + sums_ + 4 * kPitch, 2 * t + 1 < count_, sums, 1);
  }
  // Those of one of the thread's two rows, if it is there.
  ESPALIER_ON_DEVICE void store_sums(int to, bool there, const int (&sums)[kEach][Format::kGroups][4], int row) const {
    if (!there) return;
    ESPALIER_UNROLL(4)
    for (int i = 0; i < kEach; ++i) {
      ESPALIER_UNROLL(2)
      for (int of = 0; of < Format::kGroups; ++of)
        *reinterpret_cast<Sums*>(shared(to + (i * Format::kGroups + of) * row_sums_)) = {sums[i][of][row],
                                                                                         sums[i][of][2 + row]};
    }
  }

  ESPALIER_ON_DEVICE void fold_staged(int count, int slot, int set) {
    const auto* x = reinterpret_cast<const ActivationScale*>(
        shared(slot + plan_.teams * Plan::kWeights + fold_row_ * Plan::kRow + Plan::kValues));
    ESPALIER_UNROLL(4)
    for (int s = 0; s < count; ++s) fold(set, s, x[s]);
  }
  ESPALIER_ON_DEVICE void fold(int set, int s, const ActivationScale& x) {
    const int column = simt::thread() % 16, factors = factors_of(set) + 4 * column;
    const int sums = factors_of(set) + Plan::kFactorBytes + (fold_row_ * kPitch + column) * 4;
    ESPALIER_UNROLL(2)
    for (int of = 0; of < Format::kGroups; ++of) {
      const int at = s * Format::kGroups + of;
      const auto sum = static_cast<float>(*reinterpret_cast<const int*>(shared(sums + at * row_sums_)));
      const auto* const factor = reinterpret_cast<const float*>(shared(factors + at * 64));
      acc_ = add_scaled<Format>(acc_, sum * (1.0f / (1 << kRaised<Format>)), factor[0],
                                Format::kHasMinimum ? factor[Plan::kFactors] : 0.0f, x, of);
    }
  }

  // The numbers of the marked sub-blocks, in order; returns how many there are. The words stand before them, where panels were
  // staged: others may still fold, but read no panels.
  ESPALIER_ON_DEVICE int list_marked() {
    const int words = (subs_ + 63) / 64;
    auto* const marks = reinterpret_cast<std::uint64_t*>(shared(2 * set_));
    int* const list = marked();
    for (int w = simt::thread(); w < words; w += simt::threads()) {
      std::uint64_t any = 0;
      for (int row = 0; row < count_; ++row) any |= marks_of(t_, rows_.begin + row, w);
      marks[w] = any;
    }
    simt::meet();
    int count = 0;
    for (int w = 0; w < words; ++w) {
      for (int bit = simt::thread(); bit < 64; bit += simt::threads())
        if (marks[w] >> bit & 1) list[count + simt::count_bits(marks[w] & ~(~std::uint64_t{0} << bit))] = 64 * w + bit;
      count += simt::count_bits(marks[w]);
    }
    return count;
  }
  ESPALIER_ON_DEVICE int* marked() const { return reinterpret_cast<int*>(shared(2 * set_ + (subs_ + 63) / 64 * 8)); }

  // As pass_over_all(), straight from memory.
  ESPALIER_ON_DEVICE void pass_over_marked() {
    const int count = list_marked(), rounds = (count + kSubs - 1) / kSubs;
    const int* const list = marked();
    const ByteRows rows(t_, rows_.begin, true);
    const std::uint8_t* const weights = panel();
    const int g = simt::thread() >> 2 & 7, row = g < count_ ? g : 0;
    for (int round = 0, set = 0; round <= rounds; ++round, set = set_ - set) {
      simt::meet();
      const int first = round * kSubs + kEach * warp_;
      const auto at = [&](int i) { return list[first + i < count ? first + i : count - 1]; };
      if (sums_up_ && round < rounds)
        sum_up(
            set, [&](int i) { return block_of<Format>(weights, at(i)); }, [&](int i) { return at(i) % Format::kSubs; },
            [&](int i) { return rows.values(row, at(i)); });
      if (folds_ && round > 0)
        for (int s = 0, i = (round - 1) * kSubs; s < kSubs && i < count; ++s, ++i)
          fold(set_ - set, s, rows.scale(fold_row_, list[i]));
    }
  }

  ESPALIER_ON_DEVICE void finish() {
    const BlockSums sums{plan_.teams};
    simt::meet();  // others may still fold
    if (folds_) *sums.at(fold_row_, team_, simt::thread() % 16) = acc_;
    simt::meet();
    sums.finish(t_, rows_, t_.panel_begin + simt::block_x() * plan_.teams);
  }

  struct alignas(8) Sums {  // of two columns
    int a, b;
  };

  const MatmulTask& t_;
  const Plan& plan_;
  const BlockRows rows_;
  const int count_, team_, of_team_, warp_, subs_, stage_, set_;
  const bool sums_up_;
  const int fold_row_;
  const bool folds_;
  const int row_sums_;  // bytes of the sums of all rows with 16 columns
  simt::AsyncCopies copies_;
  const std::uint8_t *from_ = nullptr, *from_scales_ = nullptr;  // prepare_asking(): what comes next
  int left_ = 0, to_ = 0;                                        // how much of it, and where in a slot it goes
  int block_, sub_, values_, factors_, sums_;                    // prepare_sums()
  float acc_ = 0.0f;                                             // of a thread that folds
};

template <class Format>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(512, 1) void multiply(MultiplyWork work, Layout<Format> plan, bool two_bytes) {
  const BlockRows rows = find_rows(work, plan.rows);
  if (rows.begin < rows.end) Kernel<Format>(work, plan, rows).run(two_bytes);
}

// As many rows as shared memory has room for.
template <class Format>
Layout<Format> plan(const MultiplyWork& work) {
  const int wanted = work.usual_rows() < kMostRows ? work.usual_rows() : kMostRows;
  const auto room = static_cast<int>(simt::most_shared_bytes());
  Layout<Format> out{work.of.paired ? 2 : 1, wanted, static_cast<int>(work.of.k)};
  while (out.rows > 1 && out.bytes() > room) --out.rows;
  return out;
}

template <class Format>
void launch(simt::Stream stream, const MultiplyWork& work, bool two_bytes) {
  const Layout<Format> of = plan<Format>(work);
  const int list = 2 * of.set() + of.list_bytes();
  const auto bytes = static_cast<std::size_t>(two_bytes && list > of.bytes() ? list : of.bytes());
  simt::launch(stream,
               {static_cast<unsigned>(work.panels() / of.teams), work.tiles(of.rows),
                static_cast<unsigned>(of.teams * of.team_threads()), bytes},
               multiply<Format>, work, of, two_bytes);
}

}  // namespace espalier::cuda::few
