#include "base/linux/control_groups.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

namespace espalier {
namespace {

namespace fs = std::filesystem;

void add_with_ancestors(const fs::path& mount, const fs::path& group, int version, std::vector<ControlGroup>& to) {
  for (fs::path at = group.relative_path();; at = at.parent_path()) {
    to.push_back({at.empty() ? mount : mount / at, version});
    if (at.empty()) return;
  }
}

}  // namespace

// /proc/self/cgroup has lines "4:cpu,cpuacct:/a/b" (version 1) and "0::/a/b" (version 2).
std::vector<ControlGroup> control_groups(const fs::path& proc, const fs::path& mount, std::string_view controller) {
  std::vector<ControlGroup> groups;
  std::ifstream file(proc / "self" / "cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,") {
      add_with_ancestors(mount, group, 2, groups);
      add_with_ancestors(mount / "unified", group, 2, groups);
    } else if (controllers.find(fmt::format(",{},", controller)) != std::string::npos) {
      add_with_ancestors(mount / controller, group, 1, groups);
    }
  }
  return groups;
}

std::optional<std::int64_t> number_in(const fs::path& path) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  std::ifstream file(path);
  std::int64_t value = 0;
  if (!(file >> value) || value >= kNoLimit) return std::nullopt;
  return value;
}

}  // namespace espalier
