#include "tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.h"

namespace espalier {

std::int64_t Tensor::elements() const {
  std::int64_t product = 1;
  for (auto dimension : shape) product *= dimension;
  return product;
}

std::int64_t Tensor::columns() const {
  return shape.empty() ? 1 : shape.back();
}

std::int64_t Tensor::rows() const {
  std::int64_t product = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) product *= shape[i];
  return product;
}

std::size_t Tensor::row_bytes() const {
  const auto block = block_shape(dtype);
  return static_cast<std::size_t>(columns() / block.elements * block.bytes);
}

std::optional<std::uint64_t> stored_bytes(DType type, std::span<const std::int64_t> shape) {
  const auto block = block_shape(type);
  if (shape.empty() && block.elements != 1) return std::nullopt;
  std::uint64_t blocks = 1;  // as if every 0 were a 1, so that the product of the others is checked too
  bool empty = false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t unit = i + 1 == shape.size() ? block.elements : 1;
    if (shape[i] < 0 || shape[i] % unit != 0) return std::nullopt;
    empty = empty || shape[i] == 0;
    const auto product = checked_mul(blocks, static_cast<std::uint64_t>(std::max<std::int64_t>(shape[i] / unit, 1)));
    if (!product) return std::nullopt;
    blocks = *product;
  }
  // Elements and bytes are counted in int64 everywhere.
  const auto widest = static_cast<std::uint64_t>(std::max(block.elements, block.bytes));
  if (blocks > static_cast<std::uint64_t>(INT64_MAX) / widest) return std::nullopt;
  return empty ? 0 : blocks * block.bytes;
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace espalier
