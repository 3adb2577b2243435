#include "base/system/child_descriptors.h"

#include <crt_externs.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <array>

namespace espalier {

bool open_pipe(UniqueFd& readable, UniqueFd& writable) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return false;
  readable.reset(ends[0]);
  writable.reset(ends[1]);
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  return true;
}

short spawn_without_descriptors() {
  return POSIX_SPAWN_CLOEXEC_DEFAULT;
}

// A library may not name the program's `environ` here.
char** environment_lines() {
  return *::_NSGetEnviron();
}

}  // namespace espalier
