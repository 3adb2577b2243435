// Products of rows of bf16 with weights whose codes are floats, or that are f16, by tensor cores: few rows, whose K many warps share, and many
// rows.
//
// A piece is 128 values of K: its blocks' sums, each from zero and by its scale, are added in order, and pieces are added in
// order. So a row gets the same bits whatever rows stand beside it, and whoever takes a piece.
#include "kernels/cuda/products/float_codes.h"
#include "kernels/cuda/products/multiply_launches.h"
#include "kernels/cuda/products/tensor_products.h"
#include "kernels/cuda/simt/async_copy.h"
#include "kernels/cuda/simt/multiprocessor.h"

#include <type_traits>

namespace espalier::cuda {
namespace {

using namespace float_codes;
using namespace tensor_products;

template <int kTiles>
ESPALIER_ON_DEVICE void clear(float (&sums)[kTiles][4]) {
  ESPALIER_UNROLL(8)
  for (int tile = 0; tile < kTiles; ++tile) {
    ESPALIER_UNROLL(4)
    for (int i = 0; i < 4; ++i) sums[tile][i] = 0.0f;
  }
}

// Few rows: pieces of a round are added in order, while warps begin the next one.
template <class Codes, int kTiles>
using FewPieces = FewPlan<kTiles, Stage<Codes>::kBytes, kRowBytes, 2>;

template <class Codes, int kTiles>
class Few {
 public:
  using Plan = FewPieces<Codes, kTiles>;
  using Part = Stage<Codes>;
  ESPALIER_ON_DEVICE Few(const MatmulTask& t, const Plan& plan, const BlockRows& rows)
      : t_(t),
        plan_(plan),
        rows_(rows),
        length_(Length::of<Codes>(t)),
        warp_(simt::thread() / 32),
        first_panel_(t.panel_begin + simt::block_x() * plan.panels),
        panel_(panel_of(t, rows, first_panel_ + warp_ % plan.panels)),
        asked_piece_(warp_ / plan.panels) {}

  ESPALIER_ON_DEVICE void run() {
    const int pieces = length_.pieces();
    ESPALIER_UNROLL(1)
    for (int i = 0; i < Plan::kAhead; ++i) ask();
    int round = 0;
    for (int first = 0; first < pieces; first += plan_.warps, round ^= 1) {
      const int piece = first + warp_ / plan_.panels;
      if (piece < pieces) sum_up(piece, round);
      simt::meet();
      add_pieces(first, pieces - first < plan_.warps ? pieces - first : plan_.warps, round);
    }
    simt::meet();
    BlockSums{plan_.panels}.finish(t_, rows_, first_panel_);
  }

 private:
  ESPALIER_ON_DEVICE int stages_of(int piece) const {
    const int left = length_.stages - piece * kPieceStages;
    return left < kPieceStages ? left : kPieceStages;
  }

  // The next stage of this warp's pieces, in order; what is not there becomes zeros.
  ESPALIER_ON_DEVICE void ask() {
    if (asked_piece_ < length_.pieces()) {
      std::uint8_t* const to = plan_.slot(warp_, asked_slot_);
      const int stage = asked_piece_ * kPieceStages + asked_stage_, lane = simt::thread() % 32;
      ESPALIER_UNROLL(3)
      for (int i = 0; i < Part::kPieces; i += 32) {
        const int piece = i + lane, from = Part::from(stage, piece);
        if (piece < Part::kPieces)
          copies_.copy16(to + Codes::place_of(piece), panel_ + from, from < length_.panel_bytes);
      }
      const int piece = lane % kRowPieces, count = rows_.end - rows_.begin;
      const bool there = stage * kValues + piece * 8 < length_.values;
      const std::uint8_t* const from = row_of(t_, rows_.begin) + stage * kRowBytes + piece * 16;
      ESPALIER_UNROLL(8)
      for (int i = 0; i < Plan::kRows; i += 4) {
        const int row = i + lane / kRowPieces;
        copies_.copy16(to + Part::kBytes + row_place_of(row, piece),
                       row < count ? from + static_cast<std::size_t>(row) * t_.x_stride : from, there && row < count);
      }
      if (++asked_stage_ == stages_of(asked_piece_)) {
        asked_stage_ = 0;
        asked_piece_ += plan_.warps;
      }
      asked_slot_ = asked_slot_ + 1 == Plan::kSlots ? 0 : asked_slot_ + 1;
    }
    copies_.commit();
  }

  ESPALIER_ON_DEVICE void sum_up(int piece, int round) {
    float of_block[kTiles][4] = {}, sums[kTiles][4] = {};
    const int stages = stages_of(piece);
    for (int stage = 0; stage < stages; ++stage) {
      copies_.template wait<Plan::kAhead - 1>();
      simt::meet_neighbours<32>();
      ask();
      const std::uint8_t* const at = plan_.slot(warp_, slot_);
      ESPALIER_UNROLL((kTiles > 1 && simt::kKeepsMore ? 1 : 2))
      for (int block = 0; block < Part::kBlocks; ++block) {
        add_block(of_block, at, block);
        if (Part::kWhole || stage + 1 == stages) {
          const TwoFloats scales = Part::scales(at, block);
          ESPALIER_UNROLL(4)
          for (int tile = 0; tile < kTiles; ++tile) add_scaled(sums[tile], of_block[tile], scales);
          clear(of_block);
        }
      }
      slot_ = slot_ + 1 == Plan::kSlots ? 0 : slot_ + 1;
    }
    float* const to = plan_.sums_of(warp_ % plan_.panels, warp_ / plan_.panels, round);
    ESPALIER_UNROLL(4)
    for (int tile = 0; tile < kTiles; ++tile) store(to + 8 * tile * Plan::kPitch, Plan::kPitch, sums[tile]);
  }
  ESPALIER_ON_DEVICE static void add_block(float (&sums)[kTiles][4], const std::uint8_t* at, int block) {
    ESPALIER_UNROLL(4)
    for (int step = 0; step < Part::kSteps; ++step) {
      unsigned panel[Codes::kTerms][4];
      Part::step(at, block, step, panel);
      ESPALIER_UNROLL(4)
      for (int tile = 0; tile < kTiles; ++tile) {
        const Two row = of_row(at + Part::kBytes + 8 * tile * kRowBytes, block * Part::kSteps + step);
        ESPALIER_UNROLL(2)
        for (int term = 0; term < Codes::kTerms; ++term) simt::mma_bf16(sums[tile], panel[term], {row.a, row.b});
      }
    }
  }

  // Adds a round's pieces to the totals.
  ESPALIER_ON_DEVICE void add_pieces(int first, int count, int round) const {
    const BlockSums totals{plan_.panels};
    for (int i = simt::thread(); i < (rows_.end - rows_.begin) * plan_.panels * 16; i += simt::threads()) {
      const int row = i / (16 * plan_.panels), panel = i / 16 % plan_.panels, column = i % 16;
      float* const total = totals.at(row, panel, column);
      float sum = first == 0 ? 0.0f : *total;
      ESPALIER_UNROLL(4)
      for (int piece = 0; piece < count; ++piece)
        sum += plan_.sums_of(panel, piece, round)[row * Plan::kPitch + column];
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
  int asked_piece_, asked_stage_ = 0, asked_slot_ = 0, slot_ = 0;
};

template <class Codes, int kWarpPanels, int kWarpTiles, int kPanelWarps, int kRowWarps>
using ManyPieces = ManyShape<kWarpPanels, kWarpTiles, kPanelWarps, kRowWarps, Stage<Codes>::kBytes, kRowBytes>;

template <class Codes, class Shape>
class Many {
 public:
  using Part = Stage<Codes>;
  static constexpr int kPanels = Shape::kPanels, kTiles = Shape::kTiles;
  ESPALIER_ON_DEVICE Many(const MatmulTask& t, const BlockRows& rows)
      : t_(t),
        rows_(rows),
        length_(Length::of<Codes>(t)),
        first_panel_(t.panel_begin + simt::block_x() * Shape::kBlockPanels),
        warp_panel_(Shape::warp_panel()),
        warp_row_(Shape::warp_row()) {}

  ESPALIER_ON_DEVICE void run() {
    ESPALIER_UNROLL(1)
    for (int stage = 0; stage < Shape::kAhead; ++stage) ask(stage);
    ESPALIER_UNROLL(1)
    for (int first = 0; first < length_.stages; first += kPieceStages)
      add_piece(first, length_.stages - first < kPieceStages ? length_.stages : first + kPieceStages);
    Shape::finish(t_, rows_, first_panel_, total_);
  }

 private:
  static constexpr int kRowStep = Shape::kThreads / kRowPieces;  // a thread asks for 16 bytes of each such row
  static_assert(Shape::kBlockRows % kRowStep == 0);

  ESPALIER_ON_DEVICE std::uint8_t* slot(int stage) const {
    return simt::shared<std::uint8_t>() + stage % Shape::kSlots * Shape::kSlot;
  }

  // In order of stages; what is not there becomes zeros. In a slot: panels, then rows.
  ESPALIER_ON_DEVICE void ask(int stage) {
    if (stage < length_.stages) {
      std::uint8_t* const to = slot(stage);
      const std::uint8_t* const panels = panel_of(t_, rows_, first_panel_);
      const int left = t_.panel_end - first_panel_;
      ESPALIER_UNROLL(4)
      for (int i = simt::thread(); i < Shape::kBlockPanels * Part::kPieces; i += Shape::kThreads) {
        const int panel = i / Part::kPieces, piece = i % Part::kPieces, from = Part::from(stage, piece);
        const bool there = panel < left && from < length_.panel_bytes;
        copies_.copy16(to + panel * Part::kBytes + Codes::place_of(piece),
                       there ? panels + static_cast<std::size_t>(panel) * t_.panel_bytes + from : panels, there);
      }
      const int piece = simt::thread() % kRowPieces, row = simt::thread() / kRowPieces;
      const int rows = stage * kValues + piece * 8 < length_.values ? rows_.end - rows_.begin - row : 0;
      const std::uint8_t* from = row_of(t_, rows_.begin) + stage * kRowBytes + piece * 16;
      std::uint8_t* const to_row = to + Shape::kPanelSlot + row_place_of(row, piece);
      static_assert(kRowStep % 4 == 0);  // of which each begins with the same place
      ESPALIER_UNROLL(8)
      for (int i = 0; i < Shape::kBlockRows; i += kRowStep) {
        const bool there = i < rows;
        copies_.copy16(to_row + i * kRowBytes, there ? from + static_cast<std::size_t>(row + i) * t_.x_stride : from,
                       there);
      }
    }
    copies_.commit();
  }

  ESPALIER_ON_DEVICE void add_piece(int stage, int end) {
    float of_block[kPanels][kTiles][4] = {};
    if constexpr (Part::kWhole) {
      float piece[kPanels][kTiles][4] = {};
      for (; stage < end; ++stage) {
        await(stage);
        ESPALIER_UNROLL(1)
        for (int block = 0; block < Part::kBlocks; ++block) {
          add_block(of_block, stage, block);
          take_sums(of_block, stage, block, [&](int p, int tile, int i, float scale, float sum) {
            piece[p][tile][i] = fmaf(scale, sum, piece[p][tile][i]);
          });
        }
      }
      ESPALIER_UNROLL(4)
      for (int p = 0; p < kPanels; ++p) {
        ESPALIER_UNROLL(8)
        for (int tile = 0; tile < kTiles; ++tile) {
          ESPALIER_UNROLL(4)
          for (int i = 0; i < 4; ++i) total_[p][tile][i] += piece[p][tile][i];
        }
      }
    } else {  // a block is a piece
      ESPALIER_UNROLL(1)
      for (; stage < end; ++stage) {
        await(stage);
        add_block(of_block, stage, 0);
      }
      take_sums(of_block, end - 1, 0,
                [&](int p, int tile, int i, float scale, float sum) { total_[p][tile][i] += scale * sum; });
    }
  }
  // Asks for what comes later in the place of the stage before.
  ESPALIER_ON_DEVICE void await(int stage) {
    copies_.template wait<Shape::kAhead - 1>();
    simt::meet();
    ask(stage + Shape::kAhead);
  }
  ESPALIER_ON_DEVICE const std::uint8_t* panels_of(int stage) const { return slot(stage) + warp_panel_ * Part::kBytes; }
  ESPALIER_ON_DEVICE void add_block(float (&sums)[kPanels][kTiles][4], int stage, int block) const {
    const std::uint8_t* const panels = panels_of(stage);
    const std::uint8_t* const rows = slot(stage) + Shape::kPanelSlot + warp_row_ * kRowBytes;
    ESPALIER_UNROLL(1)  // registers have room for one
    for (int step = 0; step < Part::kSteps; ++step) {
      Two of_rows[kTiles];
      ESPALIER_UNROLL(8)
      for (int tile = 0; tile < kTiles; ++tile)
        of_rows[tile] = of_row(rows + 8 * tile * kRowBytes, block * Part::kSteps + step);
      ESPALIER_UNROLL(4)
      for (int p = 0; p < kPanels; ++p) {
        unsigned panel[Codes::kTerms][4];
        Part::step(panels + p * Part::kBytes, block, step, panel);
        ESPALIER_UNROLL(8)
        for (int tile = 0; tile < kTiles; ++tile) {
          ESPALIER_UNROLL(2)
          for (int term = 0; term < Codes::kTerms; ++term)
            simt::mma_bf16(sums[p][tile], panel[term], {of_rows[tile].a, of_rows[tile].b});
        }
      }
    }
  }
  // f(panel, tile, i, scale, sum) of a block's sums, which begin again.
  template <class F>
  ESPALIER_ON_DEVICE void take_sums(float (&sums)[kPanels][kTiles][4], int stage, int block, F f) const {
    ESPALIER_UNROLL(4)
    for (int p = 0; p < kPanels; ++p) {
      const TwoFloats scales = Part::scales(panels_of(stage) + p * Part::kBytes, block);
      ESPALIER_UNROLL(8)
      for (int tile = 0; tile < kTiles; ++tile) {
        ESPALIER_UNROLL(4)
        for (int i = 0; i < 4; ++i) f(p, tile, i, i < 2 ? scales.a : scales.b, sums[p][tile][i]);
      }
      clear(sums[p]);
    }
  }

  const MatmulTask& t_;
  const BlockRows rows_;
  const Length length_;
  const int first_panel_, warp_panel_, warp_row_;
  simt::AsyncCopies copies_;
  float total_[kPanels][kTiles][4] = {};
};

template <class Codes, int kTiles>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(512, 1) void multiply_few(MultiplyWork work, FewPieces<Codes, kTiles> plan) {
  const BlockRows rows = find_rows(work, plan.kRows);
  if (rows.begin < rows.end) Few<Codes, kTiles>(work.of, plan, rows).run();
}
template <class Codes, class Shape>
ESPALIER_GLOBAL ESPALIER_MOST_THREADS(Shape::kThreads, 1) void multiply_many(MultiplyWork work) {
  const BlockRows rows = find_rows(work, Shape::kBlockRows);
  if (rows.begin < rows.end) Many<Codes, Shape>(work.of, rows).run();
}

template <class Codes>
void multiply(simt::Stream stream, const MultiplyWork& work) {
  using Small = ManyPieces<Codes, 1, 4, 2, 2>;
  // Sums of blocks that are no pieces take registers beside those of pieces.
  using Large = ManyPieces<Codes, 2, Stage<Codes>::kWhole ? 4 : 8, 4, 2>;
  constexpr int kPiece = kPieceStages * kValues;
  const int rows = work.usual_rows();
  if constexpr (std::is_same_v<Codes, Eight<128>>)
    if (rows > 32 && multiply_many_by_wgmma(stream, work, DType::f8_128)) return;
  if (rows <= 8)
    launch_few(stream, work, kPiece, multiply_few<Codes, 1>);
  else if (rows <= 32)
    launch_few(stream, work, kPiece, multiply_few<Codes, 4>);
  else if (fills_device<Large>(work))
    launch_many<Large>(stream, work, multiply_many<Codes, Large>);
  else
    launch_many<Small>(stream, work, multiply_many<Codes, Small>);
}

}  // namespace

MultiplyLaunch multiply_float_codes(DType type) {
  switch (type) {
    case DType::f8_32:
      return multiply<Eight<32>>;
    case DType::f8_128:
      return multiply<Eight<128>>;
    case DType::nf4:
      return multiply<Four<kNf4Values>>;
    case DType::fp4:
      return multiply<Four<kFp4Table>>;
    case DType::f16:
      return multiply<Sixteen>;
    default:
      return nullptr;
  }
}

}  // namespace espalier::cuda
