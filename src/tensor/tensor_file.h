// tensor_file.h: what GGUF files and safetensors checkpoints have in common: tensors by name over mapped bytes.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace espalier {

class TensorFile {
 public:
  virtual ~TensorFile() = default;
  // Nullptr when there is no such tensor. The pointer and its bytes live as long as the file.
  virtual const Tensor* find(std::string_view name) const = 0;
  virtual const std::vector<Tensor>& tensors() const = 0;  // in file order
};

}  // namespace espalier
