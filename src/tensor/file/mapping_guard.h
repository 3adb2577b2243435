// mapping_guard.h: reading a mapped file that has shrunk (or whose disk fails) gives zeros and a mark, not a dead
// process.
//
// Touching a page of a mapping beyond the end of its file raises SIGBUS. The first guard installs a process-wide SIGBUS
// handler: a fault inside a guarded mapping marks it broken and puts zero pages over the rest of that mapping, and the
// reader goes on. A SIGBUS anywhere else goes to the handler that was there before, or ends the process as it would
// have.
// Threads: guards may be made, asked and dropped from any thread, and any thread may fault; the handler takes no lock.
//          Nobody may read a mapping whose guard is gone.
// Fails:   watch() when the table of 16,384 mappings is full or the handler cannot be installed.
// Order:   map, watch, read ..., drop the guard, unmap.
#pragma once

#include <cstddef>
#include <utility>

#include "espalier/error.h"

namespace espalier {

// Watches one mapped range: a fault in it reads as zeros and marks it broken.
class MappingGuard {
 public:
  static Result<MappingGuard> watch(const void* begin, std::size_t bytes);

  MappingGuard() = default;  // watches nothing, never broken
  MappingGuard(MappingGuard&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}
  MappingGuard& operator=(MappingGuard&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~MappingGuard();

  bool broken() const;  // some byte read since watch() was not the file's

 private:
  explicit MappingGuard(int slot) : slot_(slot) {}
  int slot_ = -1;
};

}  // namespace espalier
