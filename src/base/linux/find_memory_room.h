// find_memory_room.h: how much memory a process may still take, out of Linux's files.
// Units: bytes. Threads: any. Fails: never; a source that cannot be read sets no limit.
// Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux; proc(5).
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/system/memory_room.h"

namespace espalier {

struct MemorySources {  // where to look; a test brings its own
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroups = "/sys/fs/cgroup";
  std::int64_t address_limit = INT64_MAX;  // RLIMIT_AS
  std::int64_t data_limit = INT64_MAX;     // RLIMIT_DATA

  static MemorySources of_this_process();
};

MemoryRoom find_memory_room(const MemorySources& sources);

}  // namespace espalier
