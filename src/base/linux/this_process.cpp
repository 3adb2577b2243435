#include "base/system/this_process.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <system_error>

namespace espalier {

namespace fs = std::filesystem;

std::uint64_t resident_bytes() {
  std::uint64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t open_descriptors() {
  std::error_code ignored;
  std::uint64_t open = 0;
  for (fs::directory_iterator at("/proc/self/fd", ignored), end; at != end; at.increment(ignored)) ++open;
  return open;
}

fs::path own_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

}  // namespace espalier
