// quantised_file.h: a quantised Hugging Face checkpoint as if it held ordinary weights.
//
// Checkpoints of GPTQ, AWQ, compressed-tensors, FP8, bitsandbytes, MXFP4 and NVFP4 keep a matrix as several tensors:
// codes (often packed in words, often turned), scales, zero points, orders of inputs. Here they stand under the name of
// the weight ("...q_proj.weight"), in a type of tensor/group_blocks.h or of GGUF's that has the same values, whose rows
// are put together when they are packed (Tensor::maker). Other tensors are as they were. What a module is made of tells
// its format, so modules that were left out, and files that mix formats, need no lists of names.
// docs/decisions/quantised-checkpoints.md tells which format becomes which type.
//
// Threads: const calls from any thread.
// Fails:   bad_file naming the tensor whose shape or type does not fit the others', unsupported for formats that are
//          not known.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/quant/quantisation.h"
#include "tensor/tensor_file.h"

namespace espalier {

// Such a checkpoint's tensors.
class QuantisedFile final : public TensorFile {
 public:
  static Result<std::unique_ptr<TensorFile>> open(std::unique_ptr<TensorFile> file, const Quantisation& quantisation);

  const Tensor* find(std::string_view name) const override;
  const std::vector<Tensor>& tensors() const override { return tensors_; }
  const std::vector<Tensor>& stored() const override { return file_->stored(); }
  std::string file_of(const Tensor& tensor) const override;
  Result<> intact() const override { return file_->intact(); }
  void will_need(const Tensor& tensor) const override;
  void forget(const Tensor& tensor) const override;
  std::vector<FileStamp> stamps() const override { return file_->stamps(); }

 private:
  explicit QuantisedFile(std::unique_ptr<TensorFile> file) : file_(std::move(file)) {}

  std::unique_ptr<TensorFile> file_;
  std::vector<Tensor> tensors_;  // those that were made, and the others as they are
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace espalier
