#include "base/memory_room.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

namespace espalier {
namespace {

namespace fs = std::filesystem;

// The number that a file holds; nothing for "max", for a file that is not there, and for version 1's "no limit".
std::optional<std::int64_t> number_in(const fs::path& path) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  std::ifstream file(path);
  std::int64_t value = 0;
  if (!(file >> value) || value >= kNoLimit) return std::nullopt;
  return value;
}

// The value behind a word: "MemAvailable: 12 kB", "inactive_file 4096".
std::optional<std::int64_t> value_of(const fs::path& path, const std::string& word) {
  std::ifstream file(path);
  std::string key, rest;
  for (std::int64_t value = 0; file >> key >> value; std::getline(file, rest))
    if (key == word) return value;
  return std::nullopt;
}

struct GroupFiles {
  const char *limit, *used, *reclaimable;
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

// The least room in the group and its ancestors up to the mount. Inside a container the group's path may be that of the
// host, of which only the mount itself is seen.
std::int64_t room_in_groups(const fs::path& mount, const fs::path& group, const GroupFiles& files) {
  std::int64_t room = INT64_MAX;
  for (fs::path at = group.relative_path();; at = at.parent_path()) {
    const fs::path folder = at.empty() ? mount : mount / at;
    const auto limit = number_in(folder / files.limit), used = number_in(folder / files.used);
    if (limit && used) {
      const std::int64_t reclaimable = value_of(folder / "memory.stat", files.reclaimable).value_or(0);
      room = std::min(room, std::max<std::int64_t>(0, *limit - *used + std::min(reclaimable, *used)));
    }
    if (at.empty()) return room;
  }
}

// /proc/self/cgroup has lines "4:memory:/a/b" (version 1) and "0::/a/b" (version 2).
std::int64_t room_in_control_groups(const MemorySources& from) {
  std::int64_t room = INT64_MAX;
  std::ifstream file(from.proc / "self" / "cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,") {
      room = std::min({room, room_in_groups(from.cgroups, group, kVersion2),
                       room_in_groups(from.cgroups / "unified", group, kVersion2)});
    } else if (controllers.find(",memory,") != std::string::npos) {
      room = std::min(room, room_in_groups(from.cgroups / "memory", group, kVersion1));
    }
  }
  return room;
}

// statm counts pages: all addresses first, data and stack sixth.
std::int64_t room_in_addresses(const MemorySources& from) {
  std::ifstream statm(from.proc / "self" / "statm");
  std::vector<std::int64_t> pages;
  for (std::int64_t value = 0; statm >> value;) pages.push_back(value);
  if (pages.size() < 6) return std::min(from.address_limit, from.data_limit);
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  return std::max<std::int64_t>(0, std::min(from.address_limit - pages[0] * page, from.data_limit - pages[5] * page));
}

std::int64_t soft_limit(int what) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(what), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return INT64_MAX;
  return static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX));
}

}  // namespace

MemorySources MemorySources::of_this_process() {
  MemorySources sources;
  sources.address_limit = soft_limit(RLIMIT_AS);
  sources.data_limit = soft_limit(RLIMIT_DATA);
  return sources;
}

MemoryRoom memory_room(const MemorySources& from) {
  MemoryRoom room;
  const std::optional<std::int64_t> free_kib = value_of(from.proc / "meminfo", "MemAvailable:");
  room.pages = free_kib ? *free_kib * 1024 : static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  room.pages_limit = "the machine has no more free";
  if (const std::int64_t groups = room_in_control_groups(from); groups < room.pages) {
    room.pages = groups;
    room.pages_limit = "the control group (a container's memory limit) allows no more";
  }
  room.addresses = room_in_addresses(from);
  return room;
}

}  // namespace espalier
