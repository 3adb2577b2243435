// host_files.h: files of a disk tier that lie in the host's memory, those used last; the others lie in its folder.
//
// A device's pool is small beside the host's memory: what leaves the pool stays here before it goes to disk, or until it is
// forgotten where there is no folder. A file that is to leave is written down first and taken out afterwards, so that it
// can be read at any time.
// Units: bytes; of a file its blocks count. Threads: any. Fails: put() where memory is short, or the file alone is too large.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include "cache/disk/prefix_file.h"

namespace espalier {

// One of them. It stands as long as someone holds it.
struct HostFile {
  std::string name;
  PrefixFile header;  // as it would stand on disk
  PageBuffer memory;
  std::span<const std::byte> blocks() const {
    return {memory.data(), header.checksums.size() * static_cast<std::size_t>(header.block_stride)};
  }
};

// All of them, by name.
class HostFiles {
 public:
  explicit HostFiles(std::uint64_t capacity) : capacity_(capacity) {}

  bool on() const { return capacity_ > 0; }
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t bytes() const;

  // Copies the blocks; false: it is not kept.
  bool put(const std::string& name, const PrefixFile& header, std::span<const std::byte> blocks);
  std::shared_ptr<const HostFile> find(const std::string& name);  // and it counts as used now; null: not here
  bool has(const std::string& name) const;
  // The file used longest ago, which is to leave, while all that are to stay take more than `most`; else null.
  std::shared_ptr<const HostFile> next_to_leave(std::uint64_t most);
  bool remove(const std::string& name);  // whether it was here
  void clear();

 private:
  struct Entry {
    std::shared_ptr<const HostFile> file;
    std::list<std::string>::iterator place;  // in by_use_, unless it leaves
    bool leaves = false;
  };

  const std::uint64_t capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> files_;
  std::list<std::string> by_use_;  // the last used first
  std::uint64_t staying_ = 0, all_ = 0;
};

}  // namespace espalier
