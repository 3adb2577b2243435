// dummy_weights.h: random weights of a configuration's shape, for measuring and for tests that need no sense.
//
// All matrices are views of one buffer of random rows, so a model of any size costs one matrix of memory here. Values
// are a fixed pseudo-random sequence: the same configuration gives the same model everywhere. Fails: unsupported for a
// type that cannot be written (tensor/encode.h lists those that can).
#pragma once

#include <map>
#include <string>

#include "model/spec.h"
#include "model/tower_spec.h"
#include "model/weights/needs.h"
#include "tensor/tensor_file.h"

namespace espalier {

// Such weights, as a file would have them.
class DummyWeights final : public TensorFile {
 public:
  // HF names. tower: null where the configuration has none; those of its matrices whose rows are no whole blocks of the
  // type are bf16.
  static Result<std::unique_ptr<DummyWeights>> make(const ModelSpec& spec, DType type,
                                                    const TowerSpec* tower = nullptr);

  const Tensor* find(std::string_view name) const override;
  const std::vector<Tensor>& tensors() const override { return tensors_; }

 private:
  void fill(DType type, std::int64_t values);
  void add_all(const Needs& needs, DType type);
  void add(const std::string& name, DType type, const Shape& shape, const std::vector<std::byte>& from);
  std::map<DType, std::vector<std::byte>> matrices_;  // the largest of each type
  std::vector<std::byte> ones_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace espalier
