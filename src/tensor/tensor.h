// tensor.h: a named, typed, shaped view of bytes that somebody else keeps alive (usually a mapped file).
//
// Shapes are row-major, outermost first: a linear layer's weight is [out, in], as in HF checkpoints (GGUF's reversed
// order is turned round by its reader). Quantised types block along the last dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace espalier {

using Shape = std::vector<std::int64_t>;

struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;                      // outermost first
  std::span<const std::byte> data;  // exactly bytes(); may be unaligned

  std::int64_t elements() const;
  std::int64_t rows() const;     // product of all dimensions but the last; 1 for a vector
  std::int64_t columns() const;  // the last dimension
  std::size_t row_bytes() const;
  std::span<const std::byte> row(std::int64_t index) const { return data.subspan(index * row_bytes(), row_bytes()); }
};

}  // namespace espalier
