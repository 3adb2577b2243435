// control_groups.h: the control groups (version 1 or 2) whose limits this process is under.
//
// Fails: never; what cannot be read is no group. Threads: any.
// Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1 of Linux.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace espalier {

// One control group above this process: where its files are, and by which version's names.
struct ControlGroup {
  std::filesystem::path folder;  // with the files of the controller
  int version;                   // 1 or 2
};

// The groups that limit what `controller` ("memory", "cpu") counts: this process's own and their ancestors up to the
// mount. Inside a container a group's path may be that of the host, of which only the mount itself is seen.
// proc: /proc; mount: /sys/fs/cgroup.
std::vector<ControlGroup> control_groups(const std::filesystem::path& proc, const std::filesystem::path& mount,
                                         std::string_view controller);

// The number that a file holds; nothing for "max", for a file that is not there, and for version 1's "no limit".
std::optional<std::int64_t> number_in(const std::filesystem::path& path);

}  // namespace espalier
