#include "base/system/free_memory.h"

#include <malloc.h>

namespace espalier {

void give_back_free_memory() {
  ::malloc_trim(0);
}

void return_large_blocks() {
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);  // set, it no longer moves
}

}  // namespace espalier
