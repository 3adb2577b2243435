// dummy_checkpoint.h: random tensors of a quantised checkpoint, in the forms that its configuration tells of.
//
// For measuring: what reads these is what reads a real checkpoint (quantised_file.h), and takes as much memory. Linear
// layers get codes, scales and what else belongs to them; modules that the configuration leaves out, and those whose
// sizes the format cannot have, stay as they are. Bytes are shared between tensors of a kind, so a checkpoint of any
// size costs its largest matrix here. The same configuration gives the same bytes everywhere.
// Threads: const calls from any thread. Fails: make() with bad_request naming the configuration's field.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/quant/quantisation.h"
#include "tensor/tensor_file.h"

namespace espalier {

// Such tensors, as files would have them.
class DummyCheckpoint final : public TensorFile {
 public:
  // plain: the model's tensors (model/weights/dummy_weights.h); linear: which of them are linear layers
  // (model/program/linear_layers.h).
  static Result<std::unique_ptr<TensorFile>> make(std::unique_ptr<TensorFile> plain,
                                                  const std::set<std::string>& linear, const Quantisation& how);

  const Tensor* find(std::string_view name) const override;
  const std::vector<Tensor>& tensors() const override { return tensors_; }

 private:
  std::unique_ptr<TensorFile> plain_;
  std::map<std::string, std::vector<std::byte>, std::less<>> bytes_;  // by kind of content
  std::vector<Tensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace espalier
