#include "tensor/file/map_zeros.h"

#include <sys/mman.h>

namespace espalier {

bool map_zeros(std::byte* begin, std::size_t bytes) {
  return ::mmap(begin, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

}  // namespace espalier
