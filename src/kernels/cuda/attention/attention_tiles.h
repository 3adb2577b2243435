// attention_tiles.h: which rows of a batch a block of threads takes together, and what they see. For kernels of attention.
//
// Threads: any. Fails: never.
#pragma once

#include "kernels/cuda/attention/attention_task.h"

namespace espalier::cuda::attention {

// --- which positions are seen ---

ESPALIER_ON_DEVICE inline std::uint64_t bits_from(std::int64_t bit) {
  return bit <= 0 ? ~std::uint64_t{0} : bit >= 64 ? 0 : ~std::uint64_t{0} << bit;
}
// Positions of these 64 that hold entries.
ESPALIER_ON_DEVICE inline std::uint64_t entries_from(std::int64_t start, int stride) {
  if (stride <= 1) return ~std::uint64_t{0};
  std::uint64_t bits = 0;
  for (std::int64_t p = (start / stride + 1) * stride - 1; p < start + 64; p += stride)
    bits |= std::uint64_t{1} << (p - start);
  return bits;
}
ESPALIER_ON_DEVICE inline std::uint64_t seen_from(const AttendTask& t, const QueryRow& row, int kv_head,
                                                  std::int64_t start) {
  std::uint64_t bits = bits_from(row.first - start) & ~bits_from(row.last + std::int64_t{1} - start);
  if (bits == 0) return 0;
  bits &= entries_from(start, t.entry_stride);
  if (t.selection.words != nullptr && bits != 0) bits &= t.selection.of(row.row, kv_head)[start / 64];
  return bits;
}

// --- tiles ---

// Rows of one sequence whose positions lie in the same stretch of `most` are a tile's; the first of them computes it.
ESPALIER_ON_DEVICE inline bool belong_together(const AttendTask& t, int most, int a, int b) {
  const AttendedRow &x = t.rows[a], &y = t.rows[b];
  return x.run_begin == y.run_begin && x.run_end == y.run_end && x.query.position / most == y.query.position / most;
}
// Positions of a sequence's rows ascend.
ESPALIER_ON_DEVICE inline bool is_first(const AttendTask& t, int most, int row) {
  return row == 0 || !belong_together(t, most, row - 1, row);
}

}  // namespace espalier::cuda::attention
