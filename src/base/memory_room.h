// memory_room.h: how much memory this process may still take, whoever sets the limit: the machine, a control group
// (version 1 or 2, its ancestors included) or the limits on address space (ulimit -v) and data (ulimit -d).
//
// Units: bytes. Pages that the kernel can take back (inactive file pages) count as room.
// Threads: any. Fails: never; a source that cannot be read sets no limit.
// Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux; proc(5).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace espalier {

struct MemorySources {  // where to look; a test brings its own
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroups = "/sys/fs/cgroup";
  std::int64_t address_limit = INT64_MAX;  // RLIMIT_AS
  std::int64_t data_limit = INT64_MAX;     // RLIMIT_DATA

  static MemorySources of_this_process();
};

struct MemoryRoom {
  std::int64_t pages = INT64_MAX;      // to be written to
  std::int64_t addresses = INT64_MAX;  // to be reserved, written to or not
  std::string pages_limit;             // who sets it: "the machine has no more", "the control group's limit"

  std::int64_t least() const { return pages < addresses ? pages : addresses; }
};

MemoryRoom memory_room(const MemorySources& sources = MemorySources::of_this_process());

}  // namespace espalier
