// joined_files.h: a checkpoint and further files beside it as one: the tensors of those have a name before their own.
//
// Threads: const calls from any thread. Fails: as the files do.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "tensor/tensor_file.h"

namespace espalier {

// Several files of tensors under one face.
class JoinedFiles : public TensorFile {
 public:
  using Part = std::pair<std::string, std::unique_ptr<TensorFile>>;  // what stands before its names: "2_Dense/"
  explicit JoinedFiles(std::vector<Part> parts);

  const Tensor* find(std::string_view name) const override;
  const std::vector<Tensor>& tensors() const override { return tensors_; }
  std::string file_of(const Tensor& tensor) const override;
  Result<> intact() const override;
  void will_need(const Tensor& tensor) const override;
  void forget(const Tensor& tensor) const override;
  std::vector<FileStamp> stamps() const override;

 private:
  const Tensor* own(const Tensor& tensor, const TensorFile*& of) const;

  std::vector<Part> parts_;
  std::vector<Tensor> tensors_;  // of all parts, under their new names
};

}  // namespace espalier
