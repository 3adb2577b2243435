#include "model/dummy_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tensor/encode.h"

namespace espalier {

Result<std::unique_ptr<DummyWeights>> DummyWeights::make(const DecoderSpec& spec, DType type) {
  if (!can_encode(type))
    return Error{
        Error::Kind::unsupported,
        fmt::format("dummy weights of type {} cannot be made; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 can", name(type)),
        "dummy_type",
        {}};
  const AttentionSpec& a = spec.attention;
  const std::int64_t q = static_cast<std::int64_t>(a.heads) * a.head_dim,
                     kv = static_cast<std::int64_t>(a.kv_heads) * a.head_dim;
  const std::int64_t hidden = spec.hidden, inner = spec.mlp.inner;
  for (std::int64_t k : {hidden, q, inner})
    if (k % block_shape(type).elements != 0)
      return Error{
          Error::Kind::unsupported,
          fmt::format("dummy weights of type {} need rows of a multiple of {} values; the configuration has rows of {}",
                      name(type), block_shape(type).elements, k),
          "dummy_type",
          {}};

  auto dummy = std::make_unique<DummyWeights>();
  // One pattern of rows, repeated over the largest matrix.
  constexpr std::int64_t kPattern = 1 << 20;
  const std::int64_t largest = std::max({hidden * spec.vocabulary, hidden * inner, q * hidden});
  std::mt19937 rng(42);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> values(static_cast<std::size_t>(std::min(largest, kPattern)));
  for (float& v : values) v = normal(rng);
  const auto blocks =
      static_cast<std::int64_t>(values.size()) / block_shape(type).elements * block_shape(type).elements;
  values.resize(static_cast<std::size_t>(blocks));
  const std::vector<std::byte> pattern = encode(type, values, block_shape(type).elements);
  const auto bytes = static_cast<std::size_t>(largest / block_shape(type).elements * block_shape(type).bytes);
  dummy->matrix_.resize(bytes);
  for (std::size_t at = 0; at < bytes; at += pattern.size())
    std::memcpy(dummy->matrix_.data() + at, pattern.data(), std::min(pattern.size(), bytes - at));
  const std::vector<float> ones(static_cast<std::size_t>(std::max({hidden, q + 2 * kv, inner})), 1.0f);
  dummy->ones_ = encode(DType::f32, ones, 1);

  dummy->add(Role::embedding, -1, spec, type);
  if (!spec.tied_head) dummy->add(Role::head, -1, spec, type);
  dummy->add(Role::final_norm, -1, spec, type);
  for (int layer = 0; layer < spec.layers; ++layer)
    for (const Role role : roles_of_a_layer(spec)) dummy->add(role, layer, spec, type);
  return dummy;
}

// A matrix of the wanted type, or a vector in float32; and its bias.
void DummyWeights::add(Role role, int layer, const DecoderSpec& spec, DType type) {
  const auto [shape, bias] = shape_of(role, spec);
  add(Weights::name(Weights::Naming::hf, role, layer), shape.size() == 1 ? DType::f32 : type, shape);
  if (bias) add(Weights::name(Weights::Naming::hf, role, layer, true), DType::f32, {shape[0]});
}

void DummyWeights::add(std::string name, DType type, Shape shape) {
  Tensor tensor{std::move(name), type, std::move(shape), {}};
  const bool vector = tensor.shape.size() == 1;
  const std::size_t bytes = tensor.row_bytes() * static_cast<std::size_t>(tensor.rows());
  tensor.data = std::span<const std::byte>(vector ? ones_ : matrix_).first(bytes);
  index_.emplace(tensor.name, tensors_.size());
  tensors_.push_back(std::move(tensor));
}

const Tensor* DummyWeights::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace espalier
