#include "cache/file_calls.h"

#include <fcntl.h>
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

}  // namespace espalier
