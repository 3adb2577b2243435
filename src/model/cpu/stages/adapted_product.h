// adapted_product.h: what adapters do to one product of a batch: rows of an adapter that replaces the matrix are multiplied
// with its own instead, then factors are added.
//
// Rows are grouped by adapter (Pass::adapted). A row's bits depend on its own adapter alone (promise 1).
// Order: touches(); begin(), before the rows of x change; then finish(), or columns() of tiles.
// Threads: one caller, the team computes; columns(): any thread. Fails: never.
#pragma once

#include <vector>

#include "kernels/matmul/low_rank.h"
#include "model/adapters/adapter.h"
#include "model/cpu/memory.h"
#include "model/cpu/pass.h"

namespace espalier {

// One such product, of the matrix `id`.
class AdaptedProduct {
 public:
  // Whether some row's adapter changes the matrix.
  static bool touches(const Pass& pass, MatrixId id);

  // x: all rows; k: their width.
  void begin(const Pass& pass, MatrixId id, const RowBlock& x, std::int64_t k);
  // out: all rows and columns of the product.
  void finish(const Pass& pass, std::int64_t outputs, Place out) const;
  // Columns [first, first + count) of rows [begin, end): `out` is row begin, its column `first`, which begins a panel.
  void columns(const CpuKernels& cpu, int begin, int end, std::int64_t first, std::int64_t count, float* out,
               std::int64_t out_stride) const;
  void clear();
  bool empty() const { return low_rank_.empty() && replaced_.empty(); }

 private:
  struct Replaced {  // a row that is multiplied with another matrix
    int row;
    const WholeMatrix* by;
  };
  void replaced_columns(const CpuKernels& cpu, std::size_t index, std::int64_t first, std::int64_t count,
                        float* out) const;

  LowRankProduct low_rank_;
  std::vector<Replaced> replaced_;  // ascending
  std::vector<float> rows_;         // their x: [k] each
  std::int64_t k_ = 0;
};

// What products with adapters need beside their buffers, one after the other; grows with the batches.
struct AdapterScratch {
  AdaptedProduct product;
  std::vector<float> apart;  // sums of gates and what they gate
};

}  // namespace espalier
