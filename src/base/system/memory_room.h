// memory_room.h: how much memory this process may still take, whoever sets the limit: the machine, a control group
// (version 1 or 2, its ancestors included) or the limits on address space (ulimit -v) and data (ulimit -d).
//
// Units: bytes. Pages that the kernel can take back (inactive file pages) count as room.
// Threads: any. Fails: never; a source that cannot be read sets no limit.
// Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux; proc(5).
#pragma once

#include <cstdint>
#include <string>

namespace espalier {

// Bytes that may still be written to, bytes that may still be reserved, and who sets the limit.
struct MemoryRoom {
  std::int64_t pages = INT64_MAX;      // to be written to
  std::int64_t addresses = INT64_MAX;  // to be reserved, written to or not
  std::string pages_limit;             // who sets it: "the machine has no more", "the control group's limit"

  std::int64_t least() const { return pages < addresses ? pages : addresses; }
};

MemoryRoom memory_room();

}  // namespace espalier
