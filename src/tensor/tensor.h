// tensor.h: a named, typed, shaped view of bytes that somebody else keeps alive (usually a mapped file).
//
// Shapes are row-major, outermost first: a linear layer's weight is [out, in], as in HF checkpoints (GGUF's reversed
// order is turned round by its reader). Quantised types block along the last dimension. A shape of no dimensions is a
// single value; a dimension of 0 is an empty tensor (safetensors knows both, GGUF neither).
// Threads: values; the bytes are read-only. Fails: readers only make tensors whose sizes fit and agree with `data`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace espalier {

using Shape = std::vector<std::int64_t>;

std::string to_string(const Shape& shape);  // "[320, 64]"

// Bytes that a tensor of this type and shape occupies; nullopt when a dimension is negative, the last one is not a
// whole number of blocks, or a count does not fit.
std::optional<std::uint64_t> stored_bytes(DType type, std::span<const std::int64_t> shape);

struct Tensor;

// Puts rows together that no file holds as they are (model/quant). Threads: any, at once.
class RowMaker {
 public:
  virtual ~RowMaker() = default;
  // All bytes of a row; alignment 4.
  virtual void make(std::int64_t row, std::span<std::byte> out) const = 0;
  // Value k of every row belongs to input order()[k]; empty: to input k.
  virtual std::span<const std::int32_t> order() const { return {}; }
  // The shape is [.., inputs, outputs], but rows are those of [.., outputs, inputs].
  virtual bool turned() const { return false; }
  // The matrix whose row i is value i of each of rows [first, first + inputs), with exactly these values; null: no type of
  // blocks has them.
  virtual std::shared_ptr<const Tensor> turned_part(std::int64_t /*first*/, std::int64_t /*inputs*/) const {
    return nullptr;
  }
  virtual std::uint64_t stored_bytes() const = 0;  // of what the rows are made of
};

// Name, type, shape and bytes of one tensor.
struct Tensor {
  std::string name = {};
  DType dtype = DType::f32;
  Shape shape = {};                            // outermost first
  std::span<const std::byte> data = {};        // exactly bytes(); may be unaligned
  std::shared_ptr<const RowMaker> maker = {};  // of rows that are not there: data is empty, row() must not be asked

  std::int64_t elements() const;
  std::int64_t rows() const;     // product of all dimensions but the last; 1 for a vector
  std::int64_t columns() const;  // the last dimension; 1 for a single value
  std::size_t row_bytes() const;
  std::uint64_t stored_size() const { return maker ? maker->stored_bytes() : data.size(); }
  std::span<const std::byte> row(std::int64_t index) const { return data.subspan(index * row_bytes(), row_bytes()); }
};

}  // namespace espalier
