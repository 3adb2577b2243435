// mapped_parts.h: the tensors of one checkpoint over the one or more mapped files that hold them.
//
// The common half of GgufFile and SafetensorsFile: owns the maps, finds tensors by name and files by tensor.
// Threads: as TensorFile. Fails: build() when two tensors have the same name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "tensor/file/mapped_file.h"
#include "tensor/file/name_index.h"
#include "tensor/tensor_file.h"

namespace espalier {

// Tensors by name, over one or several mapped files.
class MappedParts {
 public:
  // Requires: every tensor's bytes lie in one of the files (or are none).
  static Result<MappedParts> build(std::vector<MappedFile> files, std::vector<Tensor> tensors);

  const Tensor* find(std::string_view name) const;
  const std::vector<Tensor>& tensors() const { return tensors_; }
  std::string file_of(const Tensor& tensor) const;
  std::uint64_t offset(const Tensor& tensor) const;  // of its bytes in that file
  Result<> intact() const;
  void will_need(const Tensor& tensor) const;
  void forget(const Tensor& tensor) const;
  std::vector<FileStamp> stamps() const;
  std::uint64_t file_bytes() const;  // of all files together

 private:
  const MappedFile* holder(const Tensor& tensor) const;

  std::vector<MappedFile> files_;
  std::vector<Tensor> tensors_;
  NameIndex index_;  // over the names inside tensors_, whose elements never move again
};

}  // namespace espalier
