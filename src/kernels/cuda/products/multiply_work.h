// multiply_work.h: what the kernels of products have in common: which rows a block of threads takes, how panels are read, and
// what becomes of a sum.
//
// Rows are cut into tiles, each of which some blocks take, block_y() being the tile. Of experts each has tiles of its own; the
// device finds them, since only it knows which rows are whose.
// Panels that are paired come whole: a task begins and ends between two pairs.
// Threads: all of a warp call find_rows(). Fails: never.
#pragma once

#include "kernels/cuda/products/multiply_task.h"
#include "kernels/cuda/simt/simd.h"
// (behind it)
#include "kernels/cpu/generic/gate.h"
#include "kernels/cuda/simt/fragments.h"
// (behind it)
#include "kernels/cpu/generic/formats.h"
#include "kernels/cpu/generic/group_formats.h"
#include "kernels/cpu/generic/table_formats.h"

namespace espalier::cuda {

// A product, or the products of experts.
struct MultiplyWork {
  MatmulTask of;
  // Of experts: their panels and biases instead of the task's, and where the rows of each begin; else null.
  const std::uint8_t* const* panels_of;
  const float* const* biases;  // or null
  const int* begin;            // [experts + 1]
  int experts, most_rows;

  int rows() const { return begin != nullptr ? most_rows : of.row_end - of.row_begin; }
  int panels() const { return of.panel_end - of.panel_begin; }
  // How many rows a product has, as far as the host can say.
  int usual_rows() const {
    if (begin == nullptr) return rows();
    const int hit = experts < most_rows ? experts : most_rows;
    return hit == 0 ? 0 : (most_rows + hit - 1) / hit;
  }
  // As many tiles of so many rows as there can be.
  unsigned tiles(int rows_each) const {
    if (begin == nullptr) return static_cast<unsigned>((rows() + rows_each - 1) / rows_each);
    const int hit = experts < most_rows ? experts : most_rows;
    return static_cast<unsigned>(hit + (most_rows - hit) / rows_each);
  }
};
using MultiplyLaunch = void (*)(simt::Stream, const MultiplyWork&);

// The rows of a block, and whose weights they meet.
struct BlockRows {
  const std::uint8_t* panels;
  const float* bias;
  int begin, end;
};

// Which expert's tile this is, by all of a warp: each thread counts the tiles of some experts.
ESPALIER_ON_DEVICE inline BlockRows find_expert_rows(const MultiplyWork& work, int tile, int rows_each) {
  const int each = (work.experts + 31) / 32, lane = simt::thread() % 32;
  const int first = lane * each, end = first + each < work.experts ? first + each : work.experts;
  const auto tiles_of = [&](int e) { return (work.begin[e + 1] - work.begin[e] + rows_each - 1) / rows_each; };
  int upto = 0;
  for (int e = first; e < end; ++e) upto += tiles_of(e);
  for (int step = 1; step < 32; step *= 2) {
    const int before = simt::of_neighbour<32>(upto, (lane - step) & 31);
    if (lane >= step) upto += before;
  }
  int owner = upto <= tile ? 1 : 0;  // whose experts have it: as many threads' have not
  for (int bit = 1; bit < 32; bit *= 2) owner += simt::of_neighbour_xor<32>(owner, bit);
  BlockRows rows{nullptr, nullptr, 0, 0};
  if (owner == 32) return rows;
  const int before = simt::of_neighbour<32>(upto, (owner - 1) & 31);
  int left = tile - (owner == 0 ? 0 : before), expert = owner * each;
  for (; left >= tiles_of(expert); ++expert) left -= tiles_of(expert);
  rows.begin = work.begin[expert] + left * rows_each;
  rows.end = rows.begin + rows_each < work.begin[expert + 1] ? rows.begin + rows_each : work.begin[expert + 1];
  rows.panels = work.panels_of[expert];
  rows.bias = work.biases == nullptr ? nullptr : work.biases[expert];
  return rows;
}

// The rows of this block, at most rows_each; none where no tile is left.
ESPALIER_ON_DEVICE inline BlockRows find_rows(const MultiplyWork& work, int rows_each) {
  if (work.begin != nullptr) return find_expert_rows(work, simt::block_y(), rows_each);
  const int begin = work.of.row_begin + simt::block_y() * rows_each;
  return {work.of.panels, work.of.bias, begin,
          begin + rows_each < work.of.row_end ? begin + rows_each : work.of.row_end};
}

// Stores what becomes of a sum of column `column` of a panel; of a pair's second panel, with the gate's.
ESPALIER_ON_DEVICE inline void finish_sum(const MatmulTask& t, const float* bias, int panel, int row, int column,
                                          float sum, float gate = 0.0f) {
  const std::int64_t at = std::int64_t{t.paired ? panel / 2 : panel} * 16 + column;
  if (at >= t.outputs) return;
  float* const out = t.out + row * t.out_stride + (at - t.out_column);
  if (bias != nullptr) {
    gate += bias[at];
    sum += bias[at + (t.paired ? t.outputs : 0)];
  }
  if (t.paired)
    sum = kernels::simt::combine(t.finish, gate, sum);
  else if (t.finish != Finish::store)
    sum = kernels::simt::combine(t.finish, *out, sum);
  *out = sum;
}

// The sums of a block of threads on their way out: float [row][16 of each panel | gap], in shared memory.
struct BlockSums {
  int panels;  // from first_panel on; those of a pair both
  // Puts eight rows' pairs of columns into different banks.
  ESPALIER_EITHER constexpr int pitch() const { return 16 * panels + 4; }
  ESPALIER_EITHER constexpr int bytes(int rows) const { return rows * pitch() * 4; }
  ESPALIER_ON_DEVICE float* at(int row, int panel, int column) const {
    return simt::shared<float>() + row * pitch() + 16 * panel + column;
  }
  // By all threads, behind a barrier: one sum each in turns, neighbours in neighbouring columns.
  ESPALIER_ON_DEVICE void finish(const MatmulTask& t, const BlockRows& rows, int first_panel) const {
    const int each = t.paired ? 2 : 1, columns = 16 * panels / each, count = (rows.end - rows.begin) * columns;
    for (int i = simt::thread(); i < count; i += simt::threads()) {
      const int row = i / columns, panel = i % columns / 16 * each, column = i % 16,
                last = first_panel + panel + each - 1;
      if (last < t.panel_end)
        finish_sum(t, rows.bias, last, rows.begin + row, column, *at(row, panel + each - 1, column),
                   *at(row, panel, column));
    }
  }
};

}  // namespace espalier::cuda
