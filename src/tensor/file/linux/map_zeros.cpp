#include "tensor/file/map_zeros.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace espalier {

// The bare system call: no bookkeeping of a library or sanitizer inside a signal handler.
bool map_zeros(std::byte* begin, std::size_t bytes) {
  return ::syscall(SYS_mmap, begin, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != -1;
}

}  // namespace espalier
