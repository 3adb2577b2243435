// mapped_file.h: a regular file's bytes, read-only, without reading them.
//
// Threads: any number may read bytes(); moving and destroying is for one, when nobody reads.
// Fails:   open() as open_file.h says, out_of_memory when there is no room to map the file, and when it cannot be
//          mapped or changes size meanwhile. A file that shrinks later does not end the process: bytes that are gone
//          read as zeros, and intact() says so from then on. So: read, then ask intact(), then trust what was read
//          (mapping_guard.h tells how).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "espalier/error.h"
#include "tensor/file/mapping_guard.h"
#include "tensor/file/open_file.h"

namespace espalier {

// One file mapped read-only, and whether it is still as it was.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);                                   // the operator's
  static Result<MappedFile> open_beneath(const std::filesystem::path& folder, std::string_view name);  // the model's

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& name() const { return name_; }  // without folders, for messages
  const FileStamp& stamp() const { return stamp_; }  // when it was mapped
  Result<> intact() const;

  // Advice only: fetch these bytes soon; give back the memory of pages that lie wholly inside (they can be read again).
  void will_need(std::span<const std::byte> part) const;
  void forget(std::span<const std::byte> part) const;

 private:
  MappedFile(std::span<const std::byte> bytes, FileStamp stamp)
      : bytes_(bytes), name_(stamp.name), stamp_(std::move(stamp)) {}
  static Result<MappedFile> map(const OpenFile& file);

  std::span<const std::byte> bytes_;
  std::string name_;
  FileStamp stamp_;
  MappingGuard guard_;
};

}  // namespace espalier
