// multiply_many.h: products of many rows of bytes with panels of whole numbers.
//
// A warp takes kPanels panels and 8 * kTiles rows, all of K in order, with its sums in registers: for each 32 values a product of
// tensor cores from zero, which is exact, then one multiply-add a sum. Panels and rows that the warps of a block share stream to
// shared memory, a stage ahead of them or more; there is one barrier a stage.
// Rows of two bytes (of small tiles) have a second pass, each warp over the sub-blocks that are marked in one of its rows.
// Threads: panel_warps() by row_warps() warps; a pair of panels belongs to a block. Fails: never.
#pragma once

#include "kernels/cuda/products/whole_numbers.h"
#include "kernels/cuda/simt/async_copy.h"
#include "kernels/cuda/simt/multiprocessor.h"

namespace espalier::cuda::many {

// A block's shared memory: kSlots stages of panels and rows. Large tiles have a fixed number of warps, each of which asks for one
// panel.
template <class Format, int kPanels, int kTiles>
struct Layout {
  static constexpr bool kLarge = kPanels * kTiles > 1;
  static constexpr int kSubs = Format::kSubs == 8 ? 8 : 4;                 // of a stage
  static constexpr int kWeights = kSubs / Format::kSubs * Format::kBytes;  // of a panel
  static constexpr int kRow = kSubs * 32 + kSubs * static_cast<int>(sizeof(ActivationScale)) + 16;
  static constexpr int kSlots = !kLarge ? 4 : kSubs == 8 ? 2 : 3;
  static constexpr int kPanelWarps = 4, kRowWarps = 2;  // of large tiles
  int any_panel_warps = kPanelWarps, any_row_warps = kRowWarps;

  ESPALIER_EITHER constexpr int panel_warps() const { return kLarge ? kPanelWarps : any_panel_warps; }
  ESPALIER_EITHER constexpr int row_warps() const { return kLarge ? kRowWarps : any_row_warps; }
  ESPALIER_EITHER constexpr int threads() const { return 32 * panel_warps() * row_warps(); }
  ESPALIER_EITHER constexpr int panels() const { return panel_warps() * kPanels; }
  ESPALIER_EITHER constexpr int rows() const { return row_warps() * kTiles * 8; }
  ESPALIER_EITHER constexpr int stage() const { return panels() * kWeights + rows() * kRow; }
  // Behind stages and sums: where large tiles note the block's rows, so that registers are left for sums.
  ESPALIER_EITHER constexpr int rows_at() const {
    const int sums = BlockSums{panels()}.bytes(rows());
    return sums > kSlots * stage() ? sums : kSlots * stage();
  }
  ESPALIER_EITHER constexpr int bytes() const { return rows_at() + (kLarge ? kNoted : 0); }
  static constexpr int kNoted = static_cast<int>(sizeof(BlockRows));
};

// Exact for sums below 2^22: added to the bits of 3 * 2^22 they give a float that is as much larger; to those of a number with
// a smaller exponent, one that is larger by a part of it.
template <class Format>
inline constexpr float kBase = 3.0f * (1 << (22 - kRaised<Format>));
template <class Format>
inline constexpr int kBaseBits = 0x4b400000 - (kRaised<Format> << 23);

// Whether a kernel takes rows of two bytes. Larger tiles have no registers left for their second pass.
template <int kPanels, int kTiles>
inline constexpr bool kTwoBytes = kPanels * kTiles == 1;

// What a thread of it does.
template <class Format, int kPanels, int kTiles>
class Kernel {
 public:
  using Plan = Layout<Format, kPanels, kTiles>;
  using Factors = kernels::fragments::Simd::F;
  ESPALIER_ON_DEVICE Kernel(const MultiplyWork& work, const Plan& plan, const BlockRows& rows)
      : t_(work.of),
        plan_(plan),
        rows_(rows),
        subs_(static_cast<int>(work.of.k / 32)),
        first_panel_(work.of.panel_begin + simt::block_x() * plan.panels()),
        warp_panel_(simt::thread() / 32 % plan.panel_warps() * kPanels),
        warp_row_(simt::thread() / 32 / plan.panel_warps() * kTiles * 8) {}

  ESPALIER_ON_DEVICE void run(bool two_bytes) {
    if (Plan::kLarge && simt::thread() == 0) noted_rows() = rows_;
    pass_over_all();
    if constexpr (kTwoBytes<kPanels, kTiles>)
      if (two_bytes) pass_over_marked();
    finish();
  }

 private:
  // A panel of this block; those behind the last one are the last one.
  ESPALIER_ON_DEVICE const std::uint8_t* panel(int index) const {
    const int at = first_panel_ + index < t_.panel_end ? first_panel_ + index : t_.panel_end - 1;
    return rows_.panels + static_cast<std::size_t>(at) * t_.panel_bytes;
  }
  // A row of this block, likewise.
  ESPALIER_ON_DEVICE int row(int index) const {
    const int last = rows_.end - rows_.begin - 1;
    return index < last ? index : last;
  }
  ESPALIER_ON_DEVICE BlockRows& noted_rows() const {
    return *reinterpret_cast<BlockRows*>(simt::shared<std::uint8_t>() + plan_.rows_at());
  }
  ESPALIER_ON_DEVICE std::uint8_t* slot(int stage) const {
    return simt::shared<std::uint8_t>() + stage % Plan::kSlots * plan_.stage();
  }

  ESPALIER_ON_DEVICE void pass_over_all() {
    constexpr int kAhead = Plan::kSlots - 1;
    const int stages = (subs_ + Plan::kSubs - 1) / Plan::kSubs;
    prepare_asking();
    for (int i = 0; i < kAhead; ++i) ask_for(i, stages);
    for (int i = 0; i < stages; ++i) {
      copies_.template wait<kAhead - 1>();
      simt::meet();
      ask_for(i + kAhead, stages);  // where the stage before was
      add_stage(i);
    }
  }

  // Warps share the panels; of a row four threads take every fourth 16 bytes, of its values and scales.
  ESPALIER_ON_DEVICE void ask_for(int stage, int stages) {
    if (stage < stages) {
      ask_for_panels(stage, slot(stage));
      ask_for_row(stage, slot(stage) + plan_.panels() * Plan::kWeights);
    }
    copies_.commit();
  }
  ESPALIER_ON_DEVICE void ask_for_panels(int stage, std::uint8_t* to) {
    const std::int64_t before = std::int64_t{stage} * Plan::kWeights;
    const std::int64_t left = static_cast<std::int64_t>(subs_) / Format::kSubs * Format::kBytes - before;
    const int end = left < Plan::kWeights ? static_cast<int>(left) : Plan::kWeights;
    const int warp = simt::thread() / 32, warps = plan_.threads() / 32, of_warp = 16 * (simt::thread() & 31);
    if constexpr (Plan::kLarge) {
      to += warp * Plan::kWeights + of_warp;
      const std::uint8_t* const from = own_panel_ + before;
      ESPALIER_UNROLL(16)
      for (int at = 0; at < Plan::kWeights; at += 512)
        if (at < end - of_warp) copies_.copy16(to + at, from + at);
      return;
    }
    const int parts = warps / plan_.panels(), index = warp % plan_.panels();  // warps that share a panel
    if (warp / plan_.panels() >= parts) return;
    const std::uint8_t* const from = panel(index) + before;
    ESPALIER_UNROLL(4)
    for (int at = 512 * (warp / plan_.panels()) + of_warp; at < end; at += 512 * parts)
      copies_.copy16(to + index * Plan::kWeights + at, from + at);
  }
  ESPALIER_ON_DEVICE void ask_for_row(int stage, std::uint8_t* slot_rows) {
    const int index = simt::thread() / 4, fourth = simt::thread() & 3, before = stage * Plan::kSubs;
    const int left = index < plan_.rows() ? subs_ - before : 0;
    const std::uint8_t* const values = own_row_ + 32 * before;
    const std::uint8_t* const scales = own_row_ + own_scales_ + static_cast<int>(sizeof(ActivationScale)) * before;
    std::uint8_t* const to = slot_rows + index * Plan::kRow + 16 * fourth;
    ESPALIER_UNROLL(4)
    for (int i = 0; i < Plan::kSubs / 2; ++i)
      if (fourth / 2 + 2 * i < left) copies_.copy16(to + 64 * i, values + 64 * i);
    ESPALIER_UNROLL(2)
    for (int i = 0; i < Plan::kSubs / 4; ++i)
      if (fourth + 4 * i < left) copies_.copy16(to + Plan::kSubs * 32 + 64 * i, scales + 64 * i);
  }
  // The first of its panel (of large tiles) and of its row that a thread asks for.
  ESPALIER_ON_DEVICE void prepare_asking() {
    const int index = simt::thread() / 4;
    const ByteRows rows(t_, rows_.begin, false);
    own_row_ = simt::kept(rows.values(row(index), 0) + 16 * (simt::thread() & 3));
    own_scales_ = static_cast<int>(rows.scales);
    if constexpr (Plan::kLarge) own_panel_ = simt::kept(panel(simt::thread() / 32) + 16 * (simt::thread() & 31));
  }

  ESPALIER_ON_DEVICE void add_stage(int stage) {
    const std::uint8_t* const weights = slot(stage) + warp_panel_ * Plan::kWeights;
    const std::uint8_t* const rows = slot(stage) + plan_.panels() * Plan::kWeights + warp_row_ * Plan::kRow;
    const int left = subs_ - stage * Plan::kSubs, end = left < Plan::kSubs ? left : Plan::kSubs;
    ESPALIER_UNROLL((kPanels * kTiles > 1 ? 1 : 4))
    for (int s = 0; s < end; ++s)
      add(
          s % Format::kSubs, [&](int p) { return block_of<Format>(weights + p * Plan::kWeights, s); },
          [&](int index) { return rows + index * Plan::kRow + 32 * s; },
          [&](int index) -> const ActivationScale& {
            return reinterpret_cast<const ActivationScale*>(rows + index * Plan::kRow + Plan::kSubs * 32)[s];
          });
  }

  // The low bytes of marked blocks, straight from memory.
  ESPALIER_ON_DEVICE void pass_over_marked() {
    const int lane = simt::thread() % 32;
    const ByteRows rows(t_, rows_.begin, true);
    for (int word = 0; word < (subs_ + 63) / 64; ++word) {
      std::uint64_t left = lane < 8 * kTiles ? marks_of(t_, rows_.begin + row(warp_row_ + lane), word) : 0;
      for (int bit = 1; bit < 32; bit *= 2) left |= simt::of_neighbour_xor<32>(left, bit);
      for (; left != 0; left &= left - 1) {
        const int sub = 64 * word + simt::lowest_bit(left);
        add(
            sub % Format::kSubs, [&](int p) { return block_of<Format>(panel(warp_panel_ + p), sub); },
            [&](int index) { return rows.values(row(warp_row_ + index), sub); },
            [&](int index) -> const ActivationScale& { return rows.scale(row(warp_row_ + index), sub); });
      }
    }
  }

  // Adds what a sub-block gives: of panel p in block(p), of a row of the warp's in values(row), with scale(row).
  template <class Block, class Values, class Scale>
  ESPALIER_ON_DEVICE void add(int sub, Block block, Values values, Scale scale) {
    const int g = simt::thread() % 32 / 4, t = simt::thread() % 4;
    PanelWords words[kPanels];
    Factors scales[kPanels][Format::kGroups], minima[kPanels][Format::kGroups];
    ESPALIER_UNROLL(2)
    for (int p = 0; p < kPanels; ++p) {
      const std::uint8_t* const at = block(p);
      words[p] = PanelWords::of<Format>(at, sub);
      ESPALIER_UNROLL(2)
      for (int of = 0; of < Format::kGroups; ++of) {
        scales[p][of] = Format::scale(at, sub, of);
        if constexpr (Format::kHasMinimum) minima[p][of] = Format::minimum(at, sub, of);
      }
    }
    ESPALIER_UNROLL(4)
    for (int tile = 0; tile < kTiles; ++tile) {
      const RowWords x = RowWords::of(values(8 * tile + g));
      const ActivationScale of_rows[2] = {scale(8 * tile + 2 * t), scale(8 * tile + 2 * t + 1)};
      ESPALIER_UNROLL(2)
      for (int p = 0; p < kPanels; ++p) {
        ESPALIER_UNROLL(2)
        for (int of = 0; of < Format::kGroups; ++of)
          add_group(acc_[p][tile], words[p], x, of, scales[p][of], minima[p][of], of_rows);
      }
    }
  }
  ESPALIER_ON_DEVICE static void add_group(float (&acc)[4], const PanelWords& words, const RowWords& x, int group,
                                           const Factors& scale, const Factors& minimum,
                                           const ActivationScale (&of_rows)[2]) {
    constexpr int kStart = kBaseBits<Format>;
    int sums[4] = {kStart, kStart, kStart, kStart};
    add_products<Format>(sums, words, x, group);
    ESPALIER_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const float sum = kernels::simt::float_of_bits(static_cast<unsigned>(sums[i])) - kBase<Format>;
      acc[i] = add_scaled<Format>(acc[i], sum, i < 2 ? scale.a : scale.b, i < 2 ? minimum.a : minimum.b, of_rows[i % 2],
                                  group);
    }
  }

  // Large tiles work out again which warp's sums these are.
  ESPALIER_ON_DEVICE void finish() {
    const BlockSums sums{plan_.panels()};
    const int thread = Plan::kLarge ? simt::kept(simt::thread()) : simt::thread(), g = thread % 32 / 4, t = thread % 4;
    const int panel = thread / 32 % plan_.panel_warps() * kPanels, row = thread / 32 / plan_.panel_warps() * kTiles * 8;
    simt::meet();  // others may still read what was staged
    ESPALIER_UNROLL(2)
    for (int p = 0; p < kPanels; ++p) {
      ESPALIER_UNROLL(4)
      for (int tile = 0; tile < kTiles; ++tile) {
        ESPALIER_UNROLL(2)
        for (int i = 0; i < 2; ++i)
          *reinterpret_cast<Factors*>(sums.at(row + 8 * tile + 2 * t + i, panel + p, 2 * g)) = {acc_[p][tile][i],
                                                                                                acc_[p][tile][2 + i]};
      }
    }
    simt::meet();
    sums.finish(t_, Plan::kLarge ? noted_rows() : rows_, first_panel_);
  }

  const MatmulTask& t_;
  const Plan& plan_;
  const BlockRows rows_;
  const int subs_, first_panel_, warp_panel_, warp_row_;
  simt::AsyncCopies copies_;
  const std::uint8_t *own_row_ = nullptr, *own_panel_ = nullptr;  // prepare_asking()
  int own_scales_ = 0;
  float acc_[kPanels][kTiles][4] = {};
};

// Blocks that a multiprocessor's registers shall hold: as many as they do without spills, and as shared memory has room for.
template <class Format, int kPanels, int kTiles>
inline constexpr int kWanted = kPanels * kTiles == 1                                                   ? 3
                               : Format::kGroups == 2 && (Format::kHasMinimum || Format::kBlock == 64) ? 1
                                                                                                       : 2;
template <class Format, int kPanels, int kTiles>
inline constexpr int kBlocks =
    simt::blocks_with_room(kWanted<Format, kPanels, kTiles>, Layout<Format, kPanels, kTiles>{2, 4}.bytes());

template <class Format, int kPanels, int kTiles>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(256, kBlocks<Format, kPanels, kTiles>) void multiply(
    MultiplyWork work, Layout<Format, kPanels, kTiles> plan, bool two_bytes) {
  const BlockRows rows = find_rows(work, plan.rows());
  if (rows.begin < rows.end) Kernel<Format, kPanels, kTiles>(work, plan, rows).run(two_bytes);
}

template <class Format, int kPanels, int kTiles>
bool fits(const Layout<Format, kPanels, kTiles>& plan) {
  return static_cast<std::size_t>(plan.bytes()) <= simt::most_shared_bytes();
}
template <class Format, int kPanels, int kTiles>
void launch(simt::Stream stream, const MultiplyWork& work, bool two_bytes,
            const Layout<Format, kPanels, kTiles>& plan) {
  const auto columns = static_cast<unsigned>((work.panels() + plan.panels() - 1) / plan.panels());
  simt::launch(
      stream,
      {columns, work.tiles(plan.rows()), static_cast<unsigned>(plan.threads()), static_cast<std::size_t>(plan.bytes())},
      multiply<Format, kPanels, kTiles>, work, plan, two_bytes);
}

// Rows of bytes, or of two.
template <class Format>
void launch(simt::Stream stream, const MultiplyWork& work, bool two_bytes) {
  constexpr int kSomeRows = 32;
  const Layout<Format, 2, 4> large{};
  const int rows = work.usual_rows();
  if (rows > kSomeRows && !two_bytes && fits(large))
    launch<Format, 2, 4>(stream, work, false, large);
  else if (rows > kSomeRows)
    launch<Format, 1, 1>(stream, work, two_bytes, {2, 4});
  else
    launch<Format, 1, 1>(stream, work, two_bytes, {work.of.paired ? 2 : 1, (rows + 7) / 8});
}

}  // namespace espalier::cuda::many
