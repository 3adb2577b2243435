// find_processors.h: which processors a process may use, out of Linux's files and its affinity mask.
// Threads: any. Fails: never; what cannot be read restricts nothing.
// Source: sysfs-devices-system-cpu of Linux (topology, cpu_capacity), Intel's hybrid PMUs (cpu_core), cgroup-v2.rst.
#pragma once

#include <filesystem>
#include <vector>

#include "base/threads/processors.h"

namespace espalier {

struct ProcessorSources {  // where to look; a test brings its own
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroups = "/sys/fs/cgroup";
  std::filesystem::path devices = "/sys/devices";
  std::vector<int> allowed;  // the affinity mask

  static ProcessorSources of_this_process();
};

Processors find_processors(const ProcessorSources& sources);

}  // namespace espalier
