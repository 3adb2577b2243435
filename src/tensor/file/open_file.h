// open_file.h: files of a model, opened without trusting the names and links that came with it.
//
// A checkpoint's author may choose file names (an index, an adapter) and, in an archive, links. So a name must be
// plain, what it leads to must be a regular file, and a link must end inside the model's folder or, in the Hugging Face
// hub's store (<model>/snapshots/<revision>/), in that store's <model>/blobs/.
// Threads: any; an OpenFile is owned by one at a time.
// Fails:   not_found when there is no such file, bad_file otherwise; the sentence names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/error.h"
#include "tensor/file_stamp.h"

namespace espalier {

// A descriptor of a regular file open for reading; closes itself.
class OpenFile {
 public:
  OpenFile(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  OpenFile(OpenFile&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)) {}
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();

  int descriptor() const { return descriptor_; }
  const std::string& name() const { return name_; }  // without folders, for messages
  Result<std::uint64_t> bytes() const;               // its size now
  Result<FileStamp> stamp() const;                   // now

 private:
  int descriptor_;
  std::string name_;
};

// A path that the operator chose: links are followed wherever they lead.
Result<OpenFile> open_file(const std::filesystem::path& path);

// A name that a file of the model chose, looked up in the model's folder.
Result<OpenFile> open_beneath(const std::filesystem::path& folder, std::string_view name);

// Whether `name` can only mean a file of the folder it is looked up in.
bool is_plain_file_name(std::string_view name);

// The whole text of a small file; too_large (as bad_file) when it has more than `limit` bytes.
Result<std::string> read_text(const OpenFile& file, std::uint64_t limit);

}  // namespace espalier
