// needs.h: which stored tensors a model's matrices and vectors are made of, as data: nothing is read here.
//
// A matrix is what one product multiplies: the rows of one or more stored tensors side by side. How stored rows become
// output columns is a RowOrder, so that fused, permuted and interleaved tensors are only described, and the same list
// serves loading, checking and making dummy weights.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace espalier {

// Which stored row is output row i: `take` rows of every `period`, from `first` on; and, within heads of `pairs` rows,
// stored pairs (i, i + half) side by side are taken apart (GGUF files of arch llama). The first `skip` rows of that order
// are left out.
struct RowOrder {
  std::int64_t first = 0, take = std::numeric_limits<std::int64_t>::max(), period = 0;
  int pairs = 0;
  std::int64_t skip = 0;

  std::int64_t stored(std::int64_t i) const;
  std::string text() const;  // "" for rows as they stand; for names of packed matrices
  bool operator==(const RowOrder&) const = default;
};

// Some output rows of a matrix, out of one stored tensor.
struct MatrixPart {
  std::string tensor;  // its name in the file
  Shape shape;         // that it must have; [.., outputs, inputs]
  std::int64_t outputs = 0;
  RowOrder rows = {};       // counted through all dimensions but the last
  bool transposed = false;  // [.., inputs, outputs]: output i is column rows.stored(i) of stored rows first_input, ...
  int joined_rows = 1;  // so many stored rows, one behind the other, are one row (a convolution's channels and taps)
  std::int64_t first_input = 0;
  std::string bias = {};  // name of the bias tensor, whose values are ordered as the rows; empty: none
  Shape bias_shape = {};
  std::int64_t first_bias = 0;  // of a transposed part: where its values begin
  int bias_rows = 1;            // so many stored rows share one value of the bias
  bool same_bias = false;       // the bias has the part's outputs alone, in their order, whichever rows they are
  std::int64_t bias_of(std::int64_t output) const;  // which value of the bias tensor
  bool operator==(const MatrixPart&) const = default;
};

// So many output rows of the same tensor, in this order.
inline MatrixPart some_rows(MatrixPart of, RowOrder rows, int outputs) {
  of.rows = rows;
  of.outputs = outputs;
  return of;
}

// What one product multiplies. gated: two parts, the first decides how much of the second passes.
struct MatrixNeed {
  std::vector<MatrixPart> parts;
  std::int64_t inputs = 0;
  bool gated = false;
  bool seldom = false;  // one of many of which a row reads few: what may be left on a disk
  std::int64_t outputs() const {
    std::int64_t sum = 0;
    for (const MatrixPart& part : parts) sum += part.outputs;
    return gated ? sum / 2 : sum;
  }
  bool operator==(const MatrixNeed&) const = default;
};

// A stored tensor that is used as it stands: rows of it are looked up by token or position.
struct TableNeed {
  std::string tensor;
  Shape shape;
};

// A vector (or a small array) of floats.
struct VectorNeed {
  std::string tensor;
  Shape shape;
};

// All that a model reads of its file.
struct Needs {
  std::vector<MatrixNeed> matrices;
  std::vector<TableNeed> tables;
  std::vector<VectorNeed> vectors;
};

}  // namespace espalier
