// safetensors.h: a checkpoint in one safetensors file, or in several listed by an index.
//
// Opening maps the files and reads their heads only (safetensors_header.h).
// Threads: const calls from any thread.
// Fails:   not_found or bad_file; see also TensorFile about files that shrink later.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/error.h"
#include "tensor/file/mapped_parts.h"
#include "tensor/tensor_file.h"

namespace espalier {

// An opened safetensors checkpoint: mapped tensors and the head's metadata.
class SafetensorsFile : public TensorFile {
 public:
  // One file, such as an adapter or a golden; the operator's path.
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  // A model's folder: model.safetensors, or else the files of model.safetensors.index.json, all beneath the folder.
  // Of a file that the index lists, tensors that the index does not name are left out.
  static Result<SafetensorsFile> open_folder(const std::filesystem::path& folder);

  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }  // of a single file
  std::uint64_t file_bytes() const { return parts_.file_bytes(); }

  const Tensor* find(std::string_view tensor) const override { return parts_.find(tensor); }
  const std::vector<Tensor>& tensors() const override { return parts_.tensors(); }
  std::string file_of(const Tensor& tensor) const override { return parts_.file_of(tensor); }
  Result<> intact() const override { return parts_.intact(); }
  void will_need(const Tensor& tensor) const override { parts_.will_need(tensor); }
  void forget(const Tensor& tensor) const override { parts_.forget(tensor); }
  std::vector<FileStamp> stamps() const override { return parts_.stamps(); }

 private:
  SafetensorsFile() = default;
  static Result<SafetensorsFile> of_one(MappedFile file);
  static Result<SafetensorsFile> of_index(const std::filesystem::path& folder);

  MappedParts parts_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

}  // namespace espalier
