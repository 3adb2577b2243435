// gguf.h: a GGUF model, in one file or split into parts named <prefix>-00001-of-0000N.gguf.
//
// Opening maps the file and reads its directory only (gguf_directory.h): milliseconds whatever its size.
// Threads: const calls from any thread.
// Fails:   open() with not_found or bad_file; see also TensorFile about files that shrink later.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "tensor/file/gguf_metadata.h"
#include "tensor/file/mapped_parts.h"
#include "tensor/tensor_file.h"

namespace espalier {

// An opened GGUF model: metadata and mapped tensors.
class GgufFile : public TensorFile {
 public:
  // Of a split model the path is that of its first part; the others lie beside it.
  static Result<GgufFile> open(const std::filesystem::path& path);

  const GgufMetadata& metadata() const { return metadata_; }  // of a split model: the first part's
  const std::string& name() const { return metadata_.file(); }
  int version() const { return version_; }
  std::uint64_t file_bytes() const { return parts_.file_bytes(); }

  const Tensor* find(std::string_view tensor) const override { return parts_.find(tensor); }
  const std::vector<Tensor>& tensors() const override { return parts_.tensors(); }
  std::string file_of(const Tensor& tensor) const override { return parts_.file_of(tensor); }
  std::uint64_t offset(const Tensor& tensor) const { return parts_.offset(tensor); }
  Result<> intact() const override { return parts_.intact(); }
  void will_need(const Tensor& tensor) const override { parts_.will_need(tensor); }
  void forget(const Tensor& tensor) const override { parts_.forget(tensor); }
  std::vector<FileStamp> stamps() const override { return parts_.stamps(); }

 private:
  GgufFile() = default;

  MappedParts parts_;
  GgufMetadata metadata_;
  int version_ = 0;
};

}  // namespace espalier
