// cache_folder.h: a private folder of files that appear whole or not at all.
//
// One process at a time owns a folder: a lock that the kernel drops with the process, however that ends, so nothing has
// to be repaired by hand. Folders are 0700 and files 0600. A file is written beside its place, flushed, then renamed.
// Reading and writing go past the page cache where the file system allows it (measured: docs/decisions/cache-tiers.md).
//
// Units:   bytes; offsets, lengths and buffers are multiples of 4096.
// Threads: any number may call the const members at the same time.
// Fails:   not_found (no such file), bad_file (shorter than expected, or no regular file), busy (another process has
//          the folder), unavailable (the device or the file system refuses: errno's sentence).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/error.h"

namespace espalier {

// What the folder is about to ask of the system; a test may make any of these fail.
enum class FileCall { open, write, sync, rename, read, remove };
using FileFault = std::function<int(FileCall)>;  // the errno to fail with; 0 = go on. Called from any thread

// A locked folder whose files appear under their names only once they are written in full.
class CacheFolder {
 public:
  struct Entry {
    std::string name;
    std::uint64_t bytes = 0;
    std::int64_t modified = 0;  // nanoseconds
  };

  // Makes the folder base/name (and base) where they are missing, and takes its lock.
  static Result<std::unique_ptr<CacheFolder>> open(const std::filesystem::path& base, const std::string& name,
                                                   FileFault fault = {});
  ~CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // The regular files other than the lock, in no order.
  std::vector<Entry> list() const;

  // A file that is written, but has no name yet. Without publish() it is removed again. Its folder outlives it.
  class Unnamed {
   public:
    Unnamed(Unnamed&& other) noexcept
        : folder_(other.folder_), file_(std::exchange(other.file_, -1)), name_(std::move(other.name_)) {}
    Unnamed& operator=(Unnamed&&) = delete;
    ~Unnamed();
    const std::string& name() const { return name_; }

   private:
    friend class CacheFolder;
    Unnamed(const CacheFolder& folder, int file, std::string name)
        : folder_(folder), file_(file), name_(std::move(name)) {}
    const CacheFolder& folder_;
    int file_;
    std::string name_;  // that it will have
  };
  // The parts one after another.
  Result<Unnamed> write(const std::string& name, std::span<const std::span<const std::byte>> parts) const;
  // Names the files, replacing what has their names. `durable`: their bytes are on the device first; for several files
  // at once that is hardly dearer than for one (one commit of the file system's journal).
  Result<> publish(std::vector<Unnamed> files, bool durable) const;
  void sync_names() const;  // names that were given survive a loss of power from now on

  // A file open for reading. Its folder outlives it.
  class Input {
   public:
    Input(Input&& other) noexcept
        : folder_(other.folder_), file_(std::exchange(other.file_, -1)), name_(std::move(other.name_)) {}
    Input& operator=(Input&&) = delete;
    ~Input();
    // Exactly into.size() bytes from `offset`.
    Result<> read(std::uint64_t offset, std::span<std::byte> into) const;
    void touch() const;  // it counts as used now

   private:
    friend class CacheFolder;
    Input(const CacheFolder& folder, int file, std::string name)
        : folder_(folder), file_(file), name_(std::move(name)) {}
    const CacheFolder& folder_;
    int file_;
    std::string name_;
  };
  Result<Input> open_file(const std::string& name) const;

  // The first bytes of a file, as many as `into` holds or the file has; through the page cache, unaligned.
  Result<std::size_t> peek(const std::string& name, std::span<std::byte> into) const;

  Result<> remove(const std::string& name) const;
  void remove_all() const;  // also the folder itself; what cannot be removed stays

 private:
  CacheFolder(std::filesystem::path path, int folder, int lock, FileFault fault)
      : path_(std::move(path)), folder_(folder), lock_(lock), fault_(std::move(fault)) {}
  int fault(FileCall call) const { return fault_ ? fault_(call) : 0; }
  Result<> fill(const Unnamed& file, std::span<const std::span<const std::byte>> parts) const;

  std::filesystem::path path_;
  int folder_, lock_;
  FileFault fault_;
};

// Our folders base/<prefix>*, in no order; and the removal of those that no process has locked.
std::vector<std::string> folders_in(const std::filesystem::path& base, std::string_view prefix);
void remove_abandoned(const std::filesystem::path& base, std::string_view prefix);

}  // namespace espalier
