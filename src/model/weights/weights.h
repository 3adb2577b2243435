// weights.h: a checkpoint's tensors, checked against what a model needs of them.
//
// Checkpoints of vision-language models keep the text model's tensors under a longer prefix ("model.language_model.",
// "language_model.model."); names are asked for as a text model has them.
// Threads: const calls from any thread. Fails: bad_file naming the tensor, its shape and the shape that was needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "model/weights/names.h"
#include "model/weights/packed_weights.h"
#include "tensor/tensor_file.h"

namespace espalier {

// The tensors of one checkpoint, by the names that a text model has.
class Weights {
 public:
  // What `packed` has of the file's matrices is not packed again; both outlive this.
  Weights(const TensorFile& file, Naming naming, const PackedWeights* packed = nullptr);

  Naming naming() const { return naming_; }
  const PackedWeights* packed() const { return packed_; }
  // What does not fit into so many bytes of memory is put into a file in `folder` (panel_file.h): first what is read
  // seldom, then all.
  struct Overflow {
    std::filesystem::path folder;
    std::uint64_t memory = 0;
  };
  void may_overflow(Overflow overflow) { overflow_ = std::move(overflow); }
  const std::optional<Overflow>& overflow() const { return overflow_; }
  const Tensor* find(std::string_view name) const;
  // With this shape. A vector may be stored with dimensions of 1 beside its own.
  Result<const Tensor*> get(std::string_view name, const Shape& shape) const;
  Result<std::vector<float>> floats(std::string_view name, const Shape& shape) const;
  bool equal(std::string_view a, std::string_view b) const;  // both are there, with the same bytes
  // The tensor is packed: its pages of the map need not stay resident.
  void forget(const Tensor& tensor) const { file_.forget(tensor); }

 private:
  const Tensor* find_below(std::string_view name) const;
  const Tensor* find_as_written(std::string_view name) const;

  const TensorFile& file_;
  Naming naming_;
  const PackedWeights* packed_;
  std::optional<Overflow> overflow_;
  std::string_view prefix_ = {}, instead_ = {};  // names that begin with the one are stored with the other
};

}  // namespace espalier
