#include "base/system/file_calls.h"

#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

namespace espalier {

int open_past_page_cache(int folder, const char* name, int flags) {
  const int file = ::openat(folder, name, flags | O_DIRECT, 0600);
  return file < 0 && errno == EINVAL ? ::openat(folder, name, flags, 0600) : file;
}

int reserve_space(int file, std::uint64_t bytes) {
  return ::fallocate(file, 0, 0, static_cast<off_t>(bytes));
}

int flush_content(int file) {
  return ::fdatasync(file);
}

bool lies_in_memory(int file) {
  constexpr long kTmpfs = 0x01021994, kRamfs = 0x858458f6;
  struct statfs info{};
  return ::fstatfs(file, &info) == 0 && (info.f_type == kTmpfs || info.f_type == kRamfs);
}

}  // namespace espalier
