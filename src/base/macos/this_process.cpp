#include "base/system/this_process.h"

#include <libproc.h>
#include <mach/mach.h>
#include <sys/proc_info.h>
#include <unistd.h>

#include <array>
#include <vector>

namespace espalier {

std::uint64_t resident_bytes() {
  mach_task_basic_info_data_t task{};
  mach_msg_type_number_t words = MACH_TASK_BASIC_INFO_COUNT;
  const auto answer = reinterpret_cast<task_info_t>(&task);
  return ::task_info(::mach_task_self(), MACH_TASK_BASIC_INFO, answer, &words) == KERN_SUCCESS ? task.resident_size : 0;
}

std::uint64_t open_descriptors() {
  // Asked without a place for the answer it tells how many would fit in its table, open or not.
  const int most = ::proc_pidinfo(::getpid(), PROC_PIDLISTFDS, 0, nullptr, 0);
  if (most <= 0) return 0;
  std::vector<proc_fdinfo> open(static_cast<std::size_t>(most) / sizeof(proc_fdinfo) + 1);
  const int bytes = static_cast<int>(open.size() * sizeof(proc_fdinfo));
  const int filled = ::proc_pidinfo(::getpid(), PROC_PIDLISTFDS, 0, open.data(), bytes);
  return filled > 0 ? static_cast<std::uint64_t>(filled) / sizeof(proc_fdinfo) : 0;
}

std::filesystem::path own_program() {
  std::array<char, PROC_PIDPATHINFO_MAXSIZE> path{};
  const int length = ::proc_pidpath(::getpid(), path.data(), path.size());
  return length > 0 ? std::filesystem::path(path.data()) : std::filesystem::path();
}

}  // namespace espalier
