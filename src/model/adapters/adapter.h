// adapter.h: what a LoRA adapter adds to one loaded model: low-rank factors beside its matrices and tables, and some that
// it replaces whole.
//
// Numbers are those of the program that it was bound to (bind_adapter.h). An adapter is used by the rows of a batch whose
// sequence names it (batch.h); any number of adapters may stand in one batch.
// Units: bytes. Threads: read-only once made; shared by whoever uses it. Fails: never.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matmul/low_rank.h"
#include "model/program/op.h"
#include "tensor/tensor_file.h"

namespace espalier {

// A matrix that stands instead of the model's.
struct WholeMatrix {
  PackedMatrix weights;
  std::vector<float> bias;  // [outputs], or empty
};

// What becomes of a table's rows: low-rank factors of one that is looked up, or another table.
struct AdaptedTable {
  std::vector<float> down;  // [rows of the table][rank]; empty: `whole`
  PackedMatrix up;          // [width, rank]
  int rank = 0;
  float scale = 1.0f;
  Tensor whole;  // of the adapter's file
};

// What another memory than the host's holds of an adapter (Backend::send()).
class AdapterElsewhere {
 public:
  virtual ~AdapterElsewhere() = default;
};

// One adapter, bound to one model.
class LoraAdapter {
 public:
  // null: the adapter leaves it as it is
  const LowRank* factors(MatrixId id) const { return find(factors_, id); }
  const WholeMatrix* whole(MatrixId id) const { return find(whole_, id); }
  const AdaptedTable* table(TableId id) const { return find(tables_, id); }
  const std::map<MatrixId, LowRank>& all_factors() const { return factors_; }
  const std::map<MatrixId, WholeMatrix>& all_whole() const { return whole_; }
  // Of the back end that its model computes with; null: the CPU.
  const AdapterElsewhere* elsewhere() const { return elsewhere_.get(); }

  // Of its contents and of nothing else: equal for equal files, wherever they lie and whatever they are called.
  const std::string& print() const { return print_; }
  std::size_t bytes() const { return bytes_; }  // of memory
  int rank() const { return rank_; }            // the largest

 private:
  friend class AdapterBinding;
  template <class T>
  static const T* find(const std::map<int, T>& map, int id) {
    const auto found = map.find(id);
    return found == map.end() ? nullptr : &found->second;
  }
  std::map<MatrixId, LowRank> factors_;
  std::map<MatrixId, WholeMatrix> whole_;
  std::map<TableId, AdaptedTable> tables_;
  std::string print_;
  std::size_t bytes_ = 0;
  int rank_ = 0;
  std::shared_ptr<const TensorFile> file_;  // that tables lie in; null: nothing does
  std::shared_ptr<const AdapterElsewhere> elsewhere_;
};

}  // namespace espalier
