#include "model/weights/dummy_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "model/program/builder.h"
#include "tensor/encode.h"

namespace espalier {
namespace {

std::int64_t elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  return count;
}

Error unsupported(std::string message) {
  return Error{Error::Kind::unsupported, std::move(message), "dummy_type", {}};
}

// Rows must be whole blocks of the type.
Result<> check_rows(const Shape& shape, DType type) {
  if (shape.back() % block_shape(type).elements == 0) return success();
  return unsupported(
      fmt::format("dummy weights of type {} need rows of a multiple of {} values; the configuration has rows of {}",
                  name(type), block_shape(type).elements, shape.back()));
}

}  // namespace

Result<std::unique_ptr<DummyWeights>> DummyWeights::make(const ModelSpec& spec, DType type) {
  if (!can_encode(type))
    return unsupported(
        fmt::format("dummy weights of type {} cannot be made; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 can", name(type)));
  ESP_TRY(const Program program, Builder::build(spec, nullptr));
  const Needs& needs = program.needs;
  std::int64_t largest = 0, longest = 0;
  for (const TableNeed& table : needs.tables) {
    ESP_CHECK(check_rows(table.shape, type));
    largest = std::max(largest, elements(table.shape));
  }
  for (const MatrixNeed& matrix : needs.matrices)
    for (const MatrixPart& part : matrix.parts) {
      ESP_CHECK(check_rows(part.shape, type));
      largest = std::max(largest, elements(part.shape));
      longest = std::max(longest, elements(part.bias_shape));
    }
  for (const VectorNeed& vector : needs.vectors) longest = std::max(longest, elements(vector.shape));

  auto dummy = std::make_unique<DummyWeights>();
  dummy->fill(type, largest, longest);
  for (const TableNeed& table : needs.tables) dummy->add(table.tensor, type, table.shape, dummy->matrix_);
  for (const MatrixNeed& matrix : needs.matrices)
    for (const MatrixPart& part : matrix.parts) {
      dummy->add(part.tensor, type, part.shape, dummy->matrix_);
      if (!part.bias.empty()) dummy->add(part.bias, DType::f32, part.bias_shape, dummy->ones_);
    }
  for (const VectorNeed& vector : needs.vectors) dummy->add(vector.tensor, DType::f32, vector.shape, dummy->ones_);
  return dummy;
}

// One pattern of rows, repeated over the largest matrix.
void DummyWeights::fill(DType type, std::int64_t values, std::int64_t ones) {
  constexpr std::int64_t kPattern = 1 << 20;
  std::mt19937 rng(42);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  const std::int64_t block = block_shape(type).elements;
  std::vector<float> drawn(static_cast<std::size_t>(std::min(values, kPattern) / block * block));
  for (float& v : drawn) v = normal(rng);
  const std::vector<std::byte> pattern = encode(type, drawn, static_cast<int>(block));
  const auto bytes = static_cast<std::size_t>(values / block * static_cast<std::int64_t>(block_shape(type).bytes));
  matrix_.resize(bytes);
  for (std::size_t at = 0; at < bytes; at += pattern.size())
    std::memcpy(matrix_.data() + at, pattern.data(), std::min(pattern.size(), bytes - at));
  ones_ = encode(DType::f32, std::vector<float>(static_cast<std::size_t>(std::max<std::int64_t>(1, ones)), 1.0f), 1);
}

void DummyWeights::add(const std::string& name, DType type, const Shape& shape, const std::vector<std::byte>& from) {
  if (index_.contains(name)) return;  // fused: several matrices are made of it
  Tensor tensor{name, type, shape, {}};
  tensor.data = std::span(from).first(tensor.row_bytes() * static_cast<std::size_t>(tensor.rows()));
  index_.emplace(name, tensors_.size());
  tensors_.push_back(std::move(tensor));
}

const Tensor* DummyWeights::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace espalier
