// made_rows.h: what the formats of quantised checkpoints have in common: rows of blocks out of several tensors.
//
// Threads: making rows is const, from any thread. Fails: making, never; the functions that make a MadeTensor say what
// does not fit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/quant/quantisation.h"
#include "tensor/tensor_file.h"

namespace espalier {

// Rows that are made of several tensors of a file.
class MadeRows : public RowMaker {
 public:
  const std::vector<const Tensor*>& sources() const { return sources_; }
  std::uint64_t stored_bytes() const override {
    std::uint64_t sum = 0;
    for (const Tensor* source : sources_) sum += source->data.size();
    return sum;
  }

 protected:
  explicit MadeRows(std::vector<const Tensor*> sources) : sources_(std::move(sources)) {}

 private:
  std::vector<const Tensor*> sources_;
};

// A module of a checkpoint: tensors that begin with its name.
class ModuleTensors {
 public:
  ModuleTensors(const TensorFile& file, std::string module) : file_(file), module_(std::move(module)) {}
  const std::string& module() const { return module_; }
  const Tensor* find(std::string_view end) const { return file_.find(module_ + std::string(end)); }
  Result<const Tensor*> get(std::string_view end) const;

 private:
  const TensorFile& file_;
  std::string module_;
};

// A sentence about a tensor that does not fit.
Error unfit(const Tensor& tensor, std::string_view why);
Error unknown_format(const Tensor& tensor, std::string_view why);

// Value i of a tensor of numbers, as a float.
float float_at(const Tensor& tensor, std::int64_t i);
std::uint32_t word_at(const Tensor& tensor, std::int64_t i);  // of i32

// The formats: each gives the weight of a module, whose name is the module's and `end`.
Result<Tensor> gptq_weight(const ModuleTensors& of, const Quantisation& how);
Result<Tensor> awq_weight(const ModuleTensors& of, const Quantisation& how);
Result<Tensor> packed_weight(const ModuleTensors& of, const Quantisation& how);  // compressed-tensors: .weight_packed
Result<Tensor> int8_weight(const ModuleTensors& of, const Quantisation& how);    // .weight and .weight_scale, or .SCB
Result<Tensor> float8_weight(const ModuleTensors& of, std::string_view weight, const Quantisation& how);
Result<Tensor> nvfp4_weight(const ModuleTensors& of, std::string_view codes);  // .weight_packed or ModelOpt's .weight
Result<Tensor> mxfp4_weight(const ModuleTensors& of);                          // compressed-tensors' .weight_packed
Result<Tensor> mxfp4_blocks(const ModuleTensors& of);                          // _blocks, _scales of all experts
Result<Tensor> bits_and_bytes_weight(const ModuleTensors& of);                 // .weight and .weight.absmax

}  // namespace espalier
