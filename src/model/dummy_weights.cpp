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

  dummy->add("model.embed_tokens.weight", type, {spec.vocabulary, hidden});
  if (!spec.tied_head) dummy->add("lm_head.weight", type, {spec.vocabulary, hidden});
  dummy->add("model.norm.weight", DType::f32, {hidden});
  for (int layer = 0; layer < spec.layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    dummy->add(at + "input_layernorm.weight", DType::f32, {hidden});
    dummy->add(at + "post_attention_layernorm.weight", DType::f32, {hidden});
    auto projection = [&](const char* projection_name, std::int64_t out, std::int64_t in, bool bias) {
      dummy->add(at + projection_name + ".weight", type, {out, in});
      if (bias) dummy->add(at + projection_name + ".bias", DType::f32, {out});
    };
    projection("self_attn.q_proj", q, hidden, a.qkv_bias);
    projection("self_attn.k_proj", kv, hidden, a.qkv_bias);
    projection("self_attn.v_proj", kv, hidden, a.qkv_bias);
    projection("self_attn.o_proj", hidden, q, a.out_bias);
    projection("mlp.gate_proj", inner, hidden, spec.mlp.bias);
    projection("mlp.up_proj", inner, hidden, spec.mlp.bias);
    projection("mlp.down_proj", hidden, inner, spec.mlp.bias);
    if (a.qk_norm) {
      dummy->add(at + "self_attn.q_norm.weight", DType::f32, {a.head_dim});
      dummy->add(at + "self_attn.k_norm.weight", DType::f32, {a.head_dim});
    }
  }
  return dummy;
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
