#include "base/system/memory_room.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include "base/linux/control_groups.h"
#include "base/linux/find_memory_room.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

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

// The least room in a group of this process or an ancestor of one.
std::int64_t room_in_control_groups(const MemorySources& from) {
  std::int64_t room = INT64_MAX;
  for (const ControlGroup& group : control_groups(from.proc, from.cgroups, "memory")) {
    const GroupFiles& files = group.version == 1 ? kVersion1 : kVersion2;
    const auto limit = number_in(group.folder / files.limit), used = number_in(group.folder / files.used);
    if (!limit || !used) continue;
    const std::int64_t reclaimable = value_of(group.folder / "memory.stat", files.reclaimable).value_or(0);
    room = std::min(room, std::max<std::int64_t>(0, *limit - *used + std::min(reclaimable, *used)));
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

MemoryRoom find_memory_room(const MemorySources& from) {
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

MemoryRoom memory_room() {
  return find_memory_room(MemorySources::of_this_process());
}

}  // namespace espalier
