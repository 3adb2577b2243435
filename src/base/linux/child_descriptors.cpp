#include "base/system/child_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace espalier {

bool open_pipe(UniqueFd& readable, UniqueFd& writable) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  readable.reset(ends[0]);
  writable.reset(ends[1]);
  return true;
}

short spawn_without_descriptors() {
  return 0;
}

char** environment_lines() {
  return environ;
}

}  // namespace espalier
