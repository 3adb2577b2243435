#include "base/system/file_calls.h"

#include <fcntl.h>
#include <unistd.h>

namespace espalier {

int open_past_page_cache(int folder, const char* name, int flags) {
  const int file = ::openat(folder, name, flags, 0600);
  if (file >= 0) ::fcntl(file, F_NOCACHE, 1);
  return file;
}

int reserve_space(int file, std::uint64_t bytes) {
  fstore_t room{F_ALLOCATEALL, F_PEOFPOSMODE, 0, static_cast<off_t>(bytes), 0};
  return ::fcntl(file, F_PREALLOCATE, &room) < 0 ? -1 : 0;
}

// fsync() leaves the device's own cache as it is.
int flush_content(int file) {
  return ::fcntl(file, F_FULLFSYNC) == 0 ? 0 : ::fsync(file);
}

bool lies_in_memory(int) {  // it has no such file system
  return false;
}

}  // namespace espalier
