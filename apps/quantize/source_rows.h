// source_rows.h: the rows of a tensor to be, as floats out of what the source stores.
// Threads: read() from any thread, at once. Fails: never; values may be no numbers.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor_file.h"

namespace espalier::quantizer {

// Rows of one tensor of the output.
struct SourceRows {
  Shape shape;  // of the output, outermost first
  std::function<void(std::int64_t row, std::span<float> out)> read;
  std::vector<const Tensor*> of;  // what is read
  const Tensor* whole = nullptr;  // the stored tensor, where the rows are just its own

  std::int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t rows() const;
};

// A row of a stored tensor, whatever it is made of; out has a value for each column.
void read_row(const Tensor& tensor, std::int64_t row, std::span<float> out);
SourceRows rows_of(const Tensor& tensor);
// Made of no tensor.
SourceRows values_of(std::vector<float> values);

}  // namespace espalier::quantizer
