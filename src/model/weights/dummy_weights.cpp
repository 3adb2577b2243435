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

// How a matrix is stored: in the type, or as bf16 where its rows are no whole blocks of it.
DType stored_as(const Shape& shape, DType type) {
  return shape.back() % block_shape(type).elements == 0 ? type : DType::bf16;
}

template <class F>
void for_each_matrix(const Needs& needs, F&& visit) {
  for (const TableNeed& table : needs.tables) visit(table.tensor, table.shape);
  for (const MatrixNeed& matrix : needs.matrices)
    for (const MatrixPart& part : matrix.parts) visit(part.tensor, part.shape);
}

template <class F>
void for_each_vector(const Needs& needs, F&& visit) {
  for (const MatrixNeed& matrix : needs.matrices)
    for (const MatrixPart& part : matrix.parts)
      if (!part.bias.empty()) visit(part.bias, part.bias_shape);
  for (const VectorNeed& vector : needs.vectors) visit(vector.tensor, vector.shape);
}

Result<> check_all_rows(const Needs& needs, DType type) {
  Result<> checked = success();
  for_each_matrix(needs, [&](const std::string&, const Shape& shape) {
    if (checked.ok()) checked = check_rows(shape, type);
  });
  return checked;
}

}  // namespace

Result<std::unique_ptr<DummyWeights>> DummyWeights::make(const ModelSpec& spec, DType type, const TowerSpec* tower) {
  if (!can_encode(type))
    return unsupported(
        fmt::format("dummy weights of type {} cannot be made; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 can", name(type)));
  std::vector<Program> programs;
  ESP_TRY(programs.emplace_back(), Builder::build(spec, nullptr));
  ESP_CHECK(check_all_rows(programs.front().needs, type));
  if (tower != nullptr) {
    ESP_TRY(programs.emplace_back(), Builder::build(*tower, nullptr));
  }
  std::map<DType, std::int64_t> largest;
  std::int64_t longest = 1;
  for (const Program& program : programs) {
    for_each_matrix(program.needs, [&](const std::string&, const Shape& shape) {
      std::int64_t& most = largest[stored_as(shape, type)];
      most = std::max(most, elements(shape));
    });
    for_each_vector(program.needs,
                    [&](const std::string&, const Shape& shape) { longest = std::max(longest, elements(shape)); });
  }
  auto dummy = std::make_unique<DummyWeights>();
  for (const auto& [stored, values] : largest) dummy->fill(stored, values);
  dummy->ones_ = encode(DType::f32, std::vector<float>(static_cast<std::size_t>(longest), 1.0f), 1);
  for (const Program& program : programs) dummy->add_all(program.needs, type);
  return dummy;
}

void DummyWeights::add_all(const Needs& needs, DType type) {
  for_each_matrix(needs, [&](const std::string& tensor, const Shape& shape) {
    const DType stored = stored_as(shape, type);
    add(tensor, stored, shape, matrices_.at(stored));
  });
  for_each_vector(needs, [&](const std::string& tensor, const Shape& shape) { add(tensor, DType::f32, shape, ones_); });
}

// One pattern of rows, repeated over the largest matrix.
void DummyWeights::fill(DType type, std::int64_t values) {
  constexpr std::int64_t kPattern = 1 << 20;
  std::mt19937 rng(42);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  const std::int64_t block = block_shape(type).elements;
  std::vector<float> drawn(static_cast<std::size_t>(std::min(values, kPattern) / block * block));
  for (float& v : drawn) v = normal(rng);
  const std::vector<std::byte> pattern = encode(type, drawn, static_cast<int>(block));
  std::vector<std::byte>& matrix = matrices_[type];
  matrix.resize(static_cast<std::size_t>(values / block * static_cast<std::int64_t>(block_shape(type).bytes)));
  for (std::size_t at = 0; at < matrix.size(); at += pattern.size())
    std::memcpy(matrix.data() + at, pattern.data(), std::min(pattern.size(), matrix.size() - at));
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
