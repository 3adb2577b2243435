// panel_file.h: packed matrices in the pages of a file without a name, for models that are larger than memory.
//
// A matrix is packed in memory, written behind those before it, and read through one map of the whole file from then
// on: the kernel keeps what is used and drops the rest, whatever limit there is on memory. Written pages are brought to
// the device as they come, so that they can be dropped at once. The file is gone when the last matrix is.
//
// Units:   bytes; each matrix begins at a page. Threads: one that keeps; any that read.
// Fails:   create(): out_of_memory when the folder lies in memory itself, cannot be written to or has too little room;
//          keep(): the same when the device refuses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/system/unique_fd.h"
#include "espalier/error.h"
#include "kernels/matmul/packed_matrix.h"
#include "tensor/file/mapping_guard.h"

namespace espalier {

// One file and its map; the matrices in it hold it.
class PanelFile : public std::enable_shared_from_this<PanelFile> {
 public:
  // What a matrix of so many bytes takes.
  static std::uint64_t room_for(std::uint64_t bytes);
  // `bytes`: the sum of room_for() of all matrices to come.
  static Result<std::shared_ptr<PanelFile>> create(const std::filesystem::path& folder, std::uint64_t bytes);
  PanelFile(const PanelFile&) = delete;
  PanelFile& operator=(const PanelFile&) = delete;
  ~PanelFile();

  // The same matrix over the file's pages.
  Result<PackedMatrix> keep(const PackedMatrix& matrix);
  std::uint64_t kept() const { return kept_; }  // bytes so far

 private:
  PanelFile() = default;
  Result<> flush();  // what was written since the last time

  std::filesystem::path folder_;
  UniqueFd file_;
  std::byte* map_ = nullptr;
  std::uint64_t bytes_ = 0, kept_ = 0, flushed_ = 0;
  MappingGuard guard_;
};

}  // namespace espalier
