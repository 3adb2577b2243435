// adapted_product.h: what adapters do to one product of a batch: rows of an adapter that replaces the matrix are multiplied
// with its own instead, then factors are added.
//
// Rows are grouped by adapter (Pass::adapted). A row's bits depend on its own adapter alone (promise 1).
// Order: touches(); begin(), then the product that it is added to (MatmulOptions::added), which reads the same rows.
// Threads: begin(): one; the others: any. Fails: never.
#pragma once

#include <vector>

#include "kernels/matmul/low_rank.h"
#include "model/adapters/adapter.h"
#include "model/cpu/memory.h"
#include "model/cpu/pass.h"

namespace espalier {

// One such product, of the matrix `id`.
class AdaptedProduct final : public AddedSums {
 public:
  // Whether some row's adapter changes the matrix.
  static bool touches(const Pass& pass, MatrixId id);

  // x: all rows; k: their width.
  void begin(const Pass& pass, MatrixId id, const RowBlock& x, std::int64_t k);
  // The matrix that is multiplied next, and how many columns this product has; behind begin().
  void call_in_next(const Pass& pass, MatrixId next, std::int64_t columns);
  void share() override { low_rank_.share(); }
  std::span<const MemoryPiece> beside(int begin, int end, std::int64_t first, std::int64_t count) const override {
    return low_rank_.beside(begin, end, first, count);
  }
  void add(int begin, int end, std::int64_t first, std::int64_t count, float* out, std::int64_t out_stride) override;
  void clear();
  bool empty() const { return low_rank_.empty() && replaced_.empty(); }

 private:
  struct Replaced {  // rows that are multiplied with another matrix
    const WholeMatrix* by;
    std::span<const int> rows;
    std::size_t first;  // of them in x_
  };
  void replace(const Replaced& group, int begin, int end, std::int64_t first, std::int64_t count, float* out,
               std::int64_t out_stride) const;

  const CpuKernels* cpu_ = nullptr;
  LowRankProduct low_rank_;
  std::vector<int> rows_;  // of all groups: a head's columns are asked for again when the pass is over
  std::vector<Replaced> replaced_;
  std::vector<float> x_;  // of replaced rows, group by group: [k] each
  std::int64_t k_ = 0;
};

// What products with adapters need beside their buffers, one after the other; grows with the batches.
struct AdapterScratch {
  AdaptedProduct product;
  std::vector<float> apart;  // sums of gates and what they gate
};

}  // namespace espalier
