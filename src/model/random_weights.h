// random_weights.h: every tensor that a model asks for, drawn at random; for tests of decoders.
//
// Decays of recurrent states (A_log) are slow, so that what stood early in a text still counts. Units: float32.
#pragma once

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "model/program/builder.h"
#include "tensor/tensor_file.h"

namespace espalier::testing {

// Such tensors, as a file would have them.
class RandomWeights final : public TensorFile {
 public:
  RandomWeights(const ModelSpec& spec, std::uint64_t seed) : rng_(seed) {
    const Needs needs = Builder::build(spec, nullptr).value().needs;
    for (const TableNeed& table : needs.tables) add(table.tensor, table.shape, 0.0f, 1.0f);
    for (const MatrixNeed& matrix : needs.matrices)
      for (const MatrixPart& part : matrix.parts) {
        add(part.tensor, part.shape, 0.0f, 1.0f / std::sqrt(static_cast<float>(part.shape.back())));
        if (!part.bias.empty()) add(part.bias, part.bias_shape, 0.0f, 0.1f);
      }
    for (const VectorNeed& vector : needs.vectors)
      if (vector.tensor.ends_with("A_log"))
        add(vector.tensor, vector.shape, -3.0f, 0.5f);
      else
        add(vector.tensor, vector.shape, 0.5f, 0.5f);
  }

  const Tensor* find(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }
  const std::vector<Tensor>& tensors() const override { return tensors_; }

 private:
  void add(const std::string& name, const Shape& shape, float mean, float spread) {
    if (index_.contains(name)) return;
    std::size_t count = 1;
    for (const std::int64_t n : shape) count *= static_cast<std::size_t>(n);
    std::normal_distribution<float> normal(mean, spread);
    std::vector<float>& values = values_[name];
    values.resize(count);
    for (float& value : values) value = normal(rng_);
    index_.emplace(name, tensors_.size());
    tensors_.push_back({name, DType::f32, shape, std::as_bytes(std::span(values))});
  }

  std::mt19937_64 rng_;
  std::map<std::string, std::vector<float>> values_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace espalier::testing
