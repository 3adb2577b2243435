// tensor_products.h: what products by tensor cores have in common, whatever weights they read: how few rows and how many are cut, and
// how sums leave.
//
// Few rows: a block of threads takes a panel, or a pair, and each of its warps other parts of K, which stream to memory of its own.
// Many rows: a warp takes some panels and some eights of rows, all of K; the warps of a block share what streams to its memory.
// Threads: all of a block together; launches on the host, asynchronous on a stream. Fails: never.
#pragma once

#include "kernels/cuda/products/multiply_work.h"

namespace espalier::cuda::tensor_products {

ESPALIER_ON_DEVICE inline const std::uint8_t* row_of(const MatmulTask& t, int row) {
  return static_cast<const std::uint8_t*>(t.x) + static_cast<std::size_t>(row) * t.x_stride;
}
ESPALIER_ON_DEVICE inline const std::uint8_t* panel_of(const MatmulTask& t, const BlockRows& rows, int panel) {
  return rows.panels + static_cast<std::size_t>(panel) * t.panel_bytes;
}

// Stores the sums of 16 columns and eight rows, as tensor cores leave them, as [row][pitch].
ESPALIER_ON_DEVICE inline void store(float* to, int pitch, const float (&sums)[4]) {
  using Two = kernels::fragments::Simd::F;
  float* const at = to + 2 * (simt::thread() & 3) * pitch + kernels::fragments::Simd::column();
  *reinterpret_cast<Two*>(at) = {sums[0], sums[2]};
  *reinterpret_cast<Two*>(at + pitch) = {sums[1], sums[3]};
}

// Few rows, 8 * kTiles of them. A block's shared memory: totals, sums of kRounds rounds, slots of each warp. A stage that is asked for
// at once has kPanelStage bytes of a panel, kRowStage of a row.
template <int kTiles, int kPanelStage, int kRowStage, int kRounds>
struct FewPlan {
  static constexpr int kRows = 8 * kTiles, kPitch = 20, kSlots = kTiles == 1 ? 4 : 3, kAhead = kSlots - 1;
  static constexpr int kSlot = kPanelStage + kRows * kRowStage;
  int panels, warps;  // of a block; warps of a panel

  ESPALIER_EITHER int threads() const { return 32 * panels * warps; }
  ESPALIER_EITHER int totals() const { return BlockSums{panels}.bytes(kRows); }
  ESPALIER_EITHER int sums() const { return panels * warps * kRows * kPitch * 4; }  // of a round
  ESPALIER_EITHER int slots_at() const { return totals() + kRounds * sums(); }
  ESPALIER_EITHER int bytes() const { return slots_at() + panels * warps * kSlots * kSlot; }

  ESPALIER_ON_DEVICE std::uint8_t* slot(int warp, int number) const {
    return simt::shared<std::uint8_t>() + slots_at() + (warp * kSlots + number) * kSlot;
  }
  // What a warp of a panel has of a round.
  ESPALIER_ON_DEVICE float* sums_of(int panel, int warp_of_panel, int round = 0) const {
    return simt::shared<float>() + (totals() + round * sums()) / 4 + (warp_of_panel * panels + panel) * kRows * kPitch;
  }
};

// Many rows: a warp has kPanels panels and 8 * kTiles rows; a block kPanelWarps by kRowWarps warps.
template <int kWarpPanels, int kWarpTiles, int kPanelWarps, int kRowWarps, int kPanelStage, int kRowStage>
struct ManyShape {
  static constexpr int kPanels = kWarpPanels, kTiles = kWarpTiles, kWide = kPanelWarps,
                       kThreads = 32 * kPanelWarps * kRowWarps;
  static constexpr int kBlockPanels = kPanelWarps * kPanels, kBlockRows = kRowWarps * kTiles * 8;
  static constexpr int kSlots = 3, kAhead = kSlots - 1;
  static constexpr int kPanelSlot = kBlockPanels * kPanelStage, kSlot = kPanelSlot + kBlockRows * kRowStage;
  static std::size_t bytes() {
    const int sums = BlockSums{kBlockPanels}.bytes(kBlockRows);
    return static_cast<std::size_t>(sums > kSlots * kSlot ? sums : kSlots * kSlot);
  }

  // What this warp has of a block.
  ESPALIER_ON_DEVICE static int warp_panel() { return simt::thread() / 32 % kWide * kPanels; }
  ESPALIER_ON_DEVICE static int warp_row() { return simt::thread() / 32 / kWide * kTiles * 8; }

  // Sums of all warps on their way out.
  ESPALIER_ON_DEVICE ESPALIER_IN_PLACE static void finish(const MatmulTask& t, const BlockRows& rows, int first_panel,
                                                          const float (&total)[kPanels][kTiles][4]) {
    const BlockSums sums{kBlockPanels};
    const int panel = warp_panel(), row = warp_row();
    simt::meet();  // others may still read what was staged
    ESPALIER_UNROLL(4)
    for (int p = 0; p < kPanels; ++p) {
      ESPALIER_UNROLL(8)
      for (int tile = 0; tile < kTiles; ++tile)
        store(sums.at(row + 8 * tile, panel + p, 0), sums.pitch(), total[p][tile]);
    }
    simt::meet();
    sums.finish(t, rows, first_panel);
  }
};

// --- the host ---

inline unsigned blocks(int panels, int each) {
  return static_cast<unsigned>((panels + each - 1) / each);
}
// kernel(work, plan). K has parts of `values` values: at most as many warps, and as shared memory has room for.
template <class Plan>
void launch_few(simt::Stream stream, const MultiplyWork& work, int values, void (*kernel)(MultiplyWork, Plan)) {
  const auto parts = static_cast<int>((work.of.k + values - 1) / values);
  const auto room = static_cast<int>(simt::most_shared_bytes());
  Plan plan{work.of.paired ? 2 : 1, parts < 8 ? parts : 8};
  while (plan.warps > 1 && plan.bytes() > room) --plan.warps;
  simt::launch(stream,
               {blocks(work.panels(), plan.panels), work.tiles(plan.kRows), static_cast<unsigned>(plan.threads()),
                static_cast<std::size_t>(plan.bytes())},
               kernel, work, plan);
}
template <class Shape>
void launch_many(simt::Stream stream, const MultiplyWork& work, void (*kernel)(MultiplyWork)) {
  simt::launch(
      stream,
      {blocks(work.panels(), Shape::kBlockPanels), work.tiles(Shape::kBlockRows), Shape::kThreads, Shape::bytes()},
      kernel, work);
}
// Whether blocks of such a shape, the larger one, keep most multiprocessors busy.
template <class Shape>
bool fills_device(const MultiplyWork& work) {
  constexpr unsigned kBlocks = 96;
  return blocks(work.panels(), Shape::kBlockPanels) * work.tiles(Shape::kBlockRows) >= kBlocks;
}

}  // namespace espalier::cuda::tensor_products
