// tier_files.h: the files of a tier: those used last in the host's memory, if some may be taken (host_files.h), the others in a
// folder, if there is one.
//
// A file is written whole, under a name that is never used again, and can be read once `stored` was told of it. One that leaves
// memory is written to the folder first. Several files are flushed at once (cache_folder.h: publish).
// Threads: the writing thread; read() and has_in_memory() any. `stored` and `trouble` are called on the writing thread.
// Fails: read() as CacheFolder::Input, not_found; what the folder refuses is told to `trouble`, and its file to `stored` as not done.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/disk/cache_folder.h"
#include "cache/disk/host_files.h"
#include "cache/disk/prefix_catalogue.h"

namespace espalier {

// A file that was to be stored, and whether it was.
struct StoredFile {
  FileId file = 0;
  std::string name;
  std::uint64_t header_bytes = 0, bytes = 0;
  std::vector<std::uint64_t> checksums;
  bool done = false;
};

// Where a tier writes, reads and forgets.
class TierFiles {
 public:
  struct Told {
    std::function<void(StoredFile)> stored;
    std::function<void(const Error&)> trouble;
  };
  // folder: null: memory alone. durable: what is named is on the device. off: nothing is written any more.
  TierFiles(std::unique_ptr<CacheFolder> folder, std::uint64_t host_bytes, bool durable, const std::atomic<bool>& off,
            Told told)
      : folder_(std::move(folder)), host_(host_bytes), durable_(durable), off_(off), told_(std::move(told)) {}

  CacheFolder* folder() const { return folder_.get(); }
  std::filesystem::path path() const { return folder_ ? folder_->path() : std::filesystem::path(); }
  const HostFiles& in_memory() const { return host_; }

  // Its header has the checksums.
  void write(FileId file, const std::string& name, PrefixFile header, std::span<const std::byte> blocks);
  void remove(const std::string& name);
  void remove_all();
  // Files leave memory for the folder until those that stay take no more than so much.
  void spill(std::uint64_t most);
  void spill() { spill(host_.capacity()); }
  // Names what was written. more_comes: it may wait for that.
  void publish(bool more_comes);

  // Where its reading was, in seconds; both 0: it lay in memory.
  struct Took {
    double opening = 0, reading = 0;
  };
  // Of a file's blocks from byte `offset` of the file on.
  Result<Took> read(const std::string& name, std::uint64_t offset, std::span<std::byte> into);

 private:
  bool write_down(const std::string& name, PrefixFile header, std::span<const std::byte> blocks);
  Result<CacheFolder::Unnamed> write_file(const std::string& name, PrefixFile& header,
                                          std::span<const std::byte> blocks) const;

  const std::unique_ptr<CacheFolder> folder_;
  HostFiles host_;
  const bool durable_;
  const std::atomic<bool>& off_;
  const Told told_;

  // Written but not named yet.
  std::vector<CacheFolder::Unnamed> unnamed_;
  std::vector<StoredFile> untold_;    // of these, those that nobody can read yet
  std::vector<std::string> leaving_;  // of these, those that lie in memory until then
};

}  // namespace espalier
