// multiply_few.h: products of at most eight rows of bytes with panels of whole numbers, as quickly as memory gives the panels.
//
// A block of threads takes one panel, or a pair, and all of K, 512 values a round. Panels and rows stream to shared memory
// some rounds ahead. Eight warps of a panel sum up two sub-blocks of 32 values each, exactly, in whichever order; what they put
// into shared memory, a thread for each sum folds in the order of K a round later. So there is one barrier a round.
// Rows of two bytes have a second pass, over the sub-blocks that are marked in one of the rows.
// Threads: a team of 256 threads and 16 for each row, for each panel. Fails: never.
#pragma once

#include "kernels/cuda/simt/async_copy.h"
#include "kernels/cuda/whole_numbers.h"

namespace espalier::cuda::few {

inline constexpr int kMostRows = 8, kSubs = 16, kSumWarps = 8;
inline constexpr int kPitch = 20;  // of a row's sixteen sums, so that a warp's go to different banks

// A block's shared memory: `slots` stages of panels and rows, then two sets of sums and scales.
template <class Format>
struct Layout {
  static constexpr int kWeights = kSubs / Format::kSubs * Format::kBytes;  // of a panel and a round
  static constexpr int kRow = kSubs * 32 + kSubs * static_cast<int>(sizeof(ActivationScale)) + 16;
  static constexpr int kFactors = kSubs * Format::kGroups * 16;  // floats
  static constexpr int kScaleBytes = kFactors * (Format::kHasMinimum ? 2 : 1) * 4;
  int teams, rows, slots, k;

  ESPALIER_EITHER int team_threads() const { return 32 * (kSumWarps + (rows + 1) / 2); }
  ESPALIER_EITHER int sum_bytes() const { return kSubs * Format::kGroups * rows * kPitch * 4; }
  ESPALIER_EITHER int stage() const { return teams * kWeights + rows * kRow; }
  ESPALIER_EITHER int set() const { return teams * (kScaleBytes + sum_bytes()); }
  ESPALIER_EITHER int list_bytes() const { return (k / 32 + 63) / 64 * 264; }  // of the second pass, instead of stages
  ESPALIER_EITHER int bytes() const { return 2 * set() + slots * stage(); }
};

template <class Format>
class Kernel {
 public:
  using Plan = Layout<Format>;
  ESPALIER_ON_DEVICE Kernel(const MultiplyWork& work, const Plan& plan, const BlockRows& rows)
      : t_(work.of),
        plan_(plan),
        rows_(rows),
        count_(rows.end - rows.begin),
        team_(simt::thread() / plan.team_threads()),
        warp_(simt::thread() % plan.team_threads() / 32),
        subs_(static_cast<int>(work.of.k / 32)) {}

  ESPALIER_ON_DEVICE void run(bool two_bytes) {
    pass_over_all();
    if (two_bytes) pass_over_marked();
    finish();
  }

 private:
  ESPALIER_ON_DEVICE bool sums_up() const { return warp_ < kSumWarps; }
  // What a thread behind these folds.
  ESPALIER_ON_DEVICE int fold_row() const { return simt::thread() % plan_.team_threads() / 16 - 2 * kSumWarps; }
  ESPALIER_ON_DEVICE int fold_column() const { return simt::thread() % 16; }
  ESPALIER_ON_DEVICE bool folds() const { return !sums_up() && fold_row() < count_; }

  ESPALIER_ON_DEVICE const std::uint8_t* panel(int team) const {
    return rows_.panels + static_cast<std::size_t>(t_.panel_begin + simt::block_x() * plan_.teams + team) * t_.panel_bytes;
  }
  ESPALIER_ON_DEVICE std::uint8_t* slot(int round) const {
    return simt::shared<std::uint8_t>() + 2 * plan_.set() + round % plan_.slots * plan_.stage();
  }
  ESPALIER_ON_DEVICE const std::uint8_t* staged_row(int round, int row) const {
    return slot(round) + plan_.teams * Plan::kWeights + row * Plan::kRow;
  }
  // The sums of a round: scales, minima, then int [sub-block][group][row][kPitch].
  ESPALIER_ON_DEVICE float* scales(int round) const {
    return reinterpret_cast<float*>(simt::shared<std::uint8_t>() + round % 2 * plan_.set() +
                                    team_ * (Plan::kScaleBytes + plan_.sum_bytes()));
  }
  ESPALIER_ON_DEVICE int* sums(int round) const { return reinterpret_cast<int*>(scales(round)) + Plan::kScaleBytes / 4; }

  ESPALIER_ON_DEVICE void pass_over_all() {
    const int rounds = (subs_ + kSubs - 1) / kSubs, ahead = plan_.slots - 2;
    for (int round = 0; round < ahead; ++round) stage(round, rounds);
    for (int round = 0; round <= rounds; ++round) {
      copies_.wait(ahead - 1);
      simt::meet();
      stage(round + ahead, rounds);  // where the round before the last one was
      if (sums_up() && round < rounds) sum_staged(round);
      if (folds() && round > 0) fold_staged(round - 1);
    }
  }

  // Asks for what a round reads.
  ESPALIER_ON_DEVICE void stage(int round, int rounds) {
    if (round < rounds) {
      std::uint8_t* const to = slot(round);
      const std::int64_t left = static_cast<std::int64_t>(subs_) / Format::kSubs * Format::kBytes -
                                std::int64_t{round} * Plan::kWeights;
      constexpr int kPieces = Plan::kWeights / 16;
      for (int i = simt::thread(); i < plan_.teams * kPieces; i += simt::threads()) {
        const int team = i / kPieces, at = i % kPieces * 16;
        if (at < left) copies_.copy16(to + team * Plan::kWeights + at, panel(team) + std::int64_t{round} * Plan::kWeights + at);
      }
      stage_rows(round, to + plan_.teams * Plan::kWeights);
    }
    copies_.commit();
  }
  ESPALIER_ON_DEVICE void stage_rows(int round, std::uint8_t* to) {
    constexpr int kValues = kSubs * 2, kPieces = kSubs * 3;  // of 16 bytes: values, then scales
    const ByteRows rows(t_, rows_.begin, false);
    for (int i = simt::thread(); i < count_ * kPieces; i += simt::threads()) {
      const int row = i / kPieces, piece = i % kPieces;
      const int sub = round * kSubs + (piece < kValues ? piece / 2 : piece - kValues);
      if (sub >= subs_) continue;
      const void* const from =
          piece < kValues ? static_cast<const void*>(rows.values(row, sub) + piece % 2 * 16) : &rows.scale(row, sub);
      copies_.copy16(to + row * Plan::kRow + piece * 16, from);
    }
  }

  ESPALIER_ON_DEVICE void sum_staged(int round) {
    const std::uint8_t* const weights = slot(round) + team_ * Plan::kWeights;
    const int row = simt::thread() % 32 / 4;
    const std::uint8_t* const values = staged_row(round, row < count_ ? row : 0);
    ESPALIER_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const int s = 2 * warp_ + i;
      if (round * kSubs + s < subs_)
        sum_up(round, s, block_of<Format>(weights, s), s % Format::kSubs, values + 32 * s);
    }
  }
  // What the s-th sub-block of a round gives, which is sub-block `sub` of `block`.
  ESPALIER_ON_DEVICE void sum_up(int round, int s, const std::uint8_t* block, int sub, const std::uint8_t* values) {
    using Read = kernels::fragments::Simd;
    const int column = Read::column(), t = simt::thread() % 4;
    const PanelWords words = PanelWords::of<Format>(block, sub);
    const RowWords rows = RowWords::of(values);
    ESPALIER_UNROLL(2)
    for (int g = 0; g < Format::kGroups; ++g) {
      const int at = s * Format::kGroups + g;
      int sum[4] = {};
      add_products<Format>(sum, words, rows, g);
      for (int i = 0; i < 2; ++i) {
        const int row = 2 * t + i;
        int* const to = sums(round) + (at * plan_.rows + row) * kPitch + column;
        if (row < count_) *reinterpret_cast<Sums*>(to) = {sum[i], sum[2 + i]};
      }
      float* const factors = scales(round) + at * 16 + column;
      if (t == 0) *reinterpret_cast<Read::F*>(factors) = Format::scale(block, sub, g);
      if constexpr (Format::kHasMinimum)
        if (t == 1) *reinterpret_cast<Read::F*>(factors + Plan::kFactors) = Format::minimum(block, sub, g);
    }
  }

  ESPALIER_ON_DEVICE void fold_staged(int round) {
    const auto* x = reinterpret_cast<const ActivationScale*>(staged_row(round, fold_row()) + kSubs * 32);
    const int left = subs_ - round * kSubs, end = left < kSubs ? left : kSubs;
    ESPALIER_UNROLL(4)
    for (int s = 0; s < end; ++s) fold(round, s, x[s]);
  }
  ESPALIER_ON_DEVICE void fold(int round, int s, const ActivationScale& x) {
    ESPALIER_UNROLL(2)
    for (int g = 0; g < Format::kGroups; ++g) {
      const int at = s * Format::kGroups + g;
      const int sum = sums(round)[(at * plan_.rows + fold_row()) * kPitch + fold_column()] -
                      kTakenOff<Format> * sum_of_values<Format>(x, g);
      const float* const factors = scales(round) + at * 16 + fold_column();
      acc_ = add_scaled<Format>(acc_, static_cast<float>(sum), factors[0],
                                Format::kHasMinimum ? factors[Plan::kFactors] : 0.0f, x, g);
    }
  }

  // The numbers of the marked sub-blocks, in order; returns how many there are. The words stand before them.
  ESPALIER_ON_DEVICE int list_marked() {
    const int words = (subs_ + 63) / 64;
    auto* const marks = reinterpret_cast<std::uint64_t*>(slot(0));
    int* const list = marked();
    simt::meet();  // others may still fold what was staged here
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
  ESPALIER_ON_DEVICE int* marked() const { return reinterpret_cast<int*>(slot(0) + (subs_ + 63) / 64 * 8); }

  // As pass_over_all(), straight from memory.
  ESPALIER_ON_DEVICE void pass_over_marked() {
    const int count = list_marked(), rounds = (count + kSubs - 1) / kSubs;
    const int* const list = marked();
    const ByteRows rows(t_, rows_.begin, true);
    const int row = simt::thread() % 32 / 4;
    for (int round = 0; round <= rounds; ++round) {
      simt::meet();
      if (sums_up() && round < rounds)
        for (int s = 2 * warp_; s < 2 * warp_ + 2 && round * kSubs + s < count; ++s) {
          const int sub = list[round * kSubs + s];
          sum_up(round, s, block_of<Format>(panel(team_), sub), sub % Format::kSubs,
                 rows.values(row < count_ ? row : 0, sub));
        }
      if (folds() && round > 0)
        for (int s = 0; s < kSubs && (round - 1) * kSubs + s < count; ++s)
          fold(round - 1, s, rows.scale(fold_row(), list[(round - 1) * kSubs + s]));
    }
  }

  ESPALIER_ON_DEVICE void finish() {
    const BlockSums sums{plan_.teams};
    simt::meet();  // others may still fold
    if (folds()) *sums.at(fold_row(), team_, fold_column()) = acc_;
    simt::meet();
    sums.finish(t_, rows_, t_.panel_begin + simt::block_x() * plan_.teams);
  }

  struct alignas(8) Sums {  // of two columns
    int a, b;
  };

  const MatmulTask& t_;
  const Plan& plan_;
  const BlockRows rows_;
  const int count_, team_, warp_, subs_;
  simt::AsyncCopies copies_;
  float acc_ = 0.0f;  // of a thread that folds
};

template <class Format>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(768) void multiply(MultiplyWork work, Layout<Format> plan, bool two_bytes) {
  const BlockRows rows = find_rows(work, plan.rows);
  if (rows.begin < rows.end) Kernel<Format>(work, plan, rows).run(two_bytes);
}

// The most rows and slots that shared memory has room for.
template <class Format>
Layout<Format> plan(const MultiplyWork& work) {
  const int wanted = work.usual_rows() < kMostRows ? work.usual_rows() : kMostRows;
  const auto room = static_cast<int>(simt::most_shared_bytes());
  Layout<Format> out{work.of.paired ? 2 : 1, wanted, 5, static_cast<int>(work.of.k)};
  while (out.slots > 3 && out.bytes() > room) --out.slots;
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
