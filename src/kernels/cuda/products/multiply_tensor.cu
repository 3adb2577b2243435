// Products of bf16 by tensor cores: few rows, whose K many warps share, and many rows.
#include "kernels/cuda/products/bf16_chunks.h"
#include "kernels/cuda/products/multiply_launches.h"
#include "kernels/cuda/products/tensor_products.h"

namespace espalier::cuda {
namespace {

using namespace bf16_chunks;
using namespace tensor_products;

constexpr int kStage = 2;  // chunks that are asked for together
constexpr int kStagesOfGroup = kGroup / kValues / kStage;

// Few rows: the parts of K are groups; those of a round are added in order.
template <int kTiles>
using FewGroups = FewPlan<kTiles, kStage * kPanelBytes, kStage * kRowBytes, 1>;

template <int kTiles>
class Few {
 public:
  using Plan = FewGroups<kTiles>;
  ESPALIER_ON_DEVICE Few(const MatmulTask& t, const Plan& plan, const BlockRows& rows)
      : t_(t),
        plan_(plan),
        rows_(rows),
        length_(t),
        warp_(simt::thread() / 32),
        first_panel_(t.panel_begin + simt::block_x() * plan.panels),
        panel_(panel_of(t, rows, first_panel_ + warp_ % plan.panels)),
        asked_group_(warp_ / plan.panels) {}

  ESPALIER_ON_DEVICE void run() {
    const int groups = length_.groups();
    ESPALIER_UNROLL(1)
    for (int i = 0; i < Plan::kAhead; ++i) ask();
    for (int first = 0; first < groups; first += plan_.warps) {
      const int group = first + warp_ / plan_.panels;
      if (group < groups) sum_up(group);
      simt::meet();
      add_groups(first, groups - first < plan_.warps ? groups - first : plan_.warps);
      simt::meet();
    }
    BlockSums{plan_.panels}.finish(t_, rows_, first_panel_);
  }

 private:
  ESPALIER_ON_DEVICE int stages_of(int group) const {
    const int left = length_.chunks - group * (kGroup / kValues), stages = (left + kStage - 1) / kStage;
    return stages < kStagesOfGroup ? stages : kStagesOfGroup;
  }

  // The next stage of this warp's groups, in order.
  ESPALIER_ON_DEVICE void ask() {
    if (asked_group_ < length_.groups()) {
      std::uint8_t* const to = plan_.slot(warp_, asked_slot_);
      const int chunk = asked_group_ * (kGroup / kValues) + asked_stage_ * kStage, lane = simt::thread() % 32;
      const std::uint8_t* const of_panel = panel_ + chunk * kPanelBytes + lane * 16;
      const int pairs = length_.pairs - chunk * kPairs - lane / 4;
      ESPALIER_UNROLL(4)
      for (int i = 0; i < kStage * 64; i += 32)
        copies_.copy16(to + i / 64 * kPanelBytes + place_of(i % 64 + lane), of_panel + i * 16, i / 4 < pairs);
      std::uint8_t* const to_rows = to + kStage * kPanelBytes + row_place_of(lane / 4, lane % 4);
      ESPALIER_UNROLL(4)
      for (int tile = 0; tile < kTiles; ++tile) {
        const int row = 8 * tile + lane / 4, last = rows_.end - rows_.begin - 1;
        const std::uint8_t* const from =
            row_of(t_, rows_.begin + (row < last ? row : last)) + chunk * kRowBytes + lane % 4 * 16;
        ESPALIER_UNROLL(2)
        for (int part = 0; part < kStage; ++part)
          copies_.copy16(to_rows + (part * Plan::kRows + 8 * tile) * kRowBytes, from + part * kRowBytes,
                         chunk + part < length_.chunks);
      }
      if (++asked_stage_ == stages_of(asked_group_)) {
        asked_stage_ = 0;
        asked_group_ += plan_.warps;
      }
      asked_slot_ = asked_slot_ + 1 == Plan::kSlots ? 0 : asked_slot_ + 1;
    }
    copies_.commit();
  }

  ESPALIER_ON_DEVICE void sum_up(int group) {
    float sums[kTiles][4] = {};
    const int stages = stages_of(group);
    for (int stage = 0; stage < stages; ++stage) {
      copies_.template wait<Plan::kAhead - 1>();
      simt::meet_neighbours<32>();
      ask();
      const std::uint8_t* const at = plan_.slot(warp_, slot_);
      ESPALIER_UNROLL(2)
      for (int part = 0; part < kStage; ++part) {
        const PanelChunk panel(at + part * kPanelBytes);
        ESPALIER_UNROLL(4)
        for (int tile = 0; tile < kTiles; ++tile)
          add(sums[tile], panel, RowChunk::of(at + kStage * kPanelBytes + (part * Plan::kRows + 8 * tile) * kRowBytes));
      }
      slot_ = slot_ + 1 == Plan::kSlots ? 0 : slot_ + 1;
    }
    ESPALIER_UNROLL(4)
    for (int tile = 0; tile < kTiles; ++tile)
      store(plan_.sums_of(warp_ % plan_.panels, warp_ / plan_.panels) + 8 * tile * Plan::kPitch, Plan::kPitch,
            sums[tile]);
  }

  // Adds a round's groups to the totals, which the first one begins.
  ESPALIER_ON_DEVICE void add_groups(int first, int count) const {
    const BlockSums totals{plan_.panels};
    for (int i = simt::thread(); i < (rows_.end - rows_.begin) * plan_.panels * 16; i += simt::threads()) {
      const int row = i / (16 * plan_.panels), panel = i / 16 % plan_.panels, column = i % 16;
      float* const total = totals.at(row, panel, column);
      float sum = first == 0 ? 0.0f : *total;
      for (int group = 0; group < count; ++group) {
        const float of_group = plan_.sums_of(panel, group)[row * Plan::kPitch + column];
        sum = first + group == 0 ? of_group : sum + of_group;
      }
      *total = sum;
    }
  }

  const MatmulTask& t_;
  const Plan& plan_;
  const BlockRows rows_;
  const Length length_;
  const int warp_, first_panel_;
  const std::uint8_t* const panel_;
  simt::AsyncCopies copies_;
  int asked_group_, asked_stage_ = 0, asked_slot_ = 0, slot_ = 0;
};

template <int kWarpPanels, int kWarpTiles, int kPanelWarps, int kRowWarps>
using ManyGroups = ManyShape<kWarpPanels, kWarpTiles, kPanelWarps, kRowWarps, kStage * kPanelBytes, kStage * kRowBytes>;

template <class Shape>
class Many {
 public:
  static constexpr int kPanels = Shape::kPanels, kTiles = Shape::kTiles;
  ESPALIER_ON_DEVICE Many(const MatmulTask& t, const BlockRows& rows)
      : t_(t),
        rows_(rows),
        length_(t),
        first_panel_(t.panel_begin + simt::block_x() * Shape::kBlockPanels),
        warp_panel_(Shape::warp_panel()),
        warp_row_(Shape::warp_row()) {}

  ESPALIER_ON_DEVICE void run() {
    const int stages = (length_.chunks + kStage - 1) / kStage;
    prepare_asking();
    ESPALIER_UNROLL(1)
    for (int stage = 0; stage < Shape::kAhead; ++stage) ask(stage, stages);
    for (int stage = 0; stage < stages;) {
      const bool first = stage == 0;
      const int end = stages - stage < kStagesOfGroup ? stages : stage + kStagesOfGroup;
      float group[kPanels][kTiles][4] = {};
      for (; stage < end; ++stage) {
        copies_.template wait<Shape::kAhead - 1>();
        simt::meet();
        ask(stage + Shape::kAhead, stages);  // where the stage before was
        add_stage(group, stage);
      }
      add_group(group, first);
    }
    Shape::finish(t_, rows_, first_panel_, total_);
  }

 private:
  // A thread asks for 16 bytes of each kPanelStep-th panel and of each kRowStep-th row.
  static constexpr int kPanelPieces = kStage * 64, kPanelStep = Shape::kThreads / kPanelPieces;
  static constexpr int kRowPieces = kStage * 4, kRowStep = Shape::kThreads / kRowPieces;
  static_assert(kPanelStep >= 1 && Shape::kBlockPanels % kPanelStep == 0 && Shape::kBlockRows % kRowStep == 0);

  ESPALIER_ON_DEVICE std::uint8_t* slot(int stage) const {
    return simt::shared<std::uint8_t>() + stage % Shape::kSlots * Shape::kSlot;
  }

  // What a thread asks for: a piece of a pair of K of some panels, and of a chunk of some rows.
  ESPALIER_ON_DEVICE void prepare_asking() {
    const int piece = simt::thread() % kPanelPieces, panel = simt::thread() / kPanelPieces;
    const int of_row = simt::thread() % kRowPieces, row = simt::thread() / kRowPieces;
    from_panel_ = simt::kept(panel_of(t_, rows_, first_panel_ + panel) + piece / 4 * 64 + piece % 4 * 16);
    to_panel_ = simt::kept((panel * kStage + piece / 64) * kPanelBytes + place_of(piece % 64));
    from_row_ = simt::kept(row_of(t_, rows_.begin + row) + of_row / 4 * kRowBytes + of_row % 4 * 16);
    to_row_ =
        simt::kept(Shape::kPanelSlot + of_row / 4 * Shape::kBlockRows * kRowBytes + row_place_of(row, of_row % 4));
  }
  // In order of stages; what is not there becomes zeros. In a slot: [panel][chunk], then [chunk][row].
  ESPALIER_ON_DEVICE void ask(int stage, int stages) {
    if (stage < stages) {
      const int pair = stage * kStage * kPairs + simt::thread() % kPanelPieces / 4;
      const int chunk = stage * kStage + simt::thread() % kRowPieces / 4;
      const int panels = pair < length_.pairs ? t_.panel_end - first_panel_ - simt::thread() / kPanelPieces : 0;
      const int rows = chunk < length_.chunks ? rows_.end - rows_.begin - simt::thread() / kRowPieces : 0;
      std::uint8_t* const to = slot(stage);
      const std::uint8_t *panel = from_panel_, *row = from_row_;
      ESPALIER_UNROLL(8)
      for (int i = 0; i < Shape::kBlockPanels; i += kPanelStep, panel += kPanelStep * t_.panel_bytes)
        copies_.copy16(to + to_panel_ + i * kStage * kPanelBytes, panel, i < panels);
      ESPALIER_UNROLL(8)
      for (int i = 0; i < Shape::kBlockRows; i += kRowStep, row += kRowStep * t_.x_stride)
        copies_.copy16(to + to_row_ + i * kRowBytes, row, i < rows);
      from_panel_ += kStage * kPanelBytes;
      from_row_ += kStage * kRowBytes;
    }
    copies_.commit();
  }

  ESPALIER_ON_DEVICE void add_stage(float (&group)[kPanels][kTiles][4], int stage) const {
    const std::uint8_t* const panels = slot(stage) + warp_panel_ * kStage * kPanelBytes;
    const std::uint8_t* const rows = slot(stage) + Shape::kPanelSlot + warp_row_ * kRowBytes;
    ESPALIER_UNROLL(1)  // registers have room for one
    for (int part = 0; part < kStage; ++part) {
      RowChunk of_rows[kTiles];
      ESPALIER_UNROLL(4)
      for (int tile = 0; tile < kTiles; ++tile)
        of_rows[tile] = RowChunk::of(rows + (part * Shape::kBlockRows + 8 * tile) * kRowBytes);
      ESPALIER_UNROLL(4)
      for (int p = 0; p < kPanels; ++p) {
        const PanelChunk panel(panels + (p * kStage + part) * kPanelBytes);
        ESPALIER_UNROLL(4)
        for (int tile = 0; tile < kTiles; ++tile) add(group[p][tile], panel, of_rows[tile]);
      }
    }
  }
  ESPALIER_ON_DEVICE void add_group(const float (&group)[kPanels][kTiles][4], bool first) {
    ESPALIER_UNROLL(4)
    for (int p = 0; p < kPanels; ++p) {
      ESPALIER_UNROLL(4)
      for (int tile = 0; tile < kTiles; ++tile) {
        ESPALIER_UNROLL(4)
        for (int i = 0; i < 4; ++i)
          total_[p][tile][i] = first ? group[p][tile][i] : total_[p][tile][i] + group[p][tile][i];
      }
    }
  }

  const MatmulTask& t_;
  const BlockRows rows_;
  const Length length_;
  const int first_panel_, warp_panel_, warp_row_;
  simt::AsyncCopies copies_;
  const std::uint8_t *from_panel_ = nullptr, *from_row_ = nullptr;  // prepare_asking(): what comes next
  int to_panel_ = 0, to_row_ = 0;                                   // and where in a slot it goes
  float total_[kPanels][kTiles][4] = {};
};

template <int kTiles>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(512, 1) void multiply_few(MultiplyWork work, FewGroups<kTiles> plan) {
  const BlockRows rows = find_rows(work, plan.kRows);
  if (rows.begin < rows.end) Few<kTiles>(work.of, plan, rows).run();
}
template <class Shape>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(Shape::kThreads, 1) void multiply_many(MultiplyWork work) {
  const BlockRows rows = find_rows(work, Shape::kBlockRows);
  if (rows.begin < rows.end) Many<Shape>(work.of, rows).run();
}

}  // namespace

void multiply_tensor(simt::Stream stream, const MultiplyWork& work) {
  using Small = ManyGroups<1, 4, 2, 2>;
  using Large = ManyGroups<4, 4, 2, 4>;
  const int rows = work.usual_rows();
  if (rows > 32 && multiply_many_by_wgmma(stream, work, DType::bf16)) return;
  if (rows <= 8)
    launch_few(stream, work, kGroup, multiply_few<1>);
  else if (rows <= 32)
    launch_few(stream, work, kGroup, multiply_few<4>);
  else if (fills_device<Large>(work))
    launch_many<Large>(stream, work, multiply_many<Large>);
  else
    launch_many<Small>(stream, work, multiply_many<Small>);
}

}  // namespace espalier::cuda
