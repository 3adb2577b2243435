#include "base/system/free_memory.h"

#include <malloc/malloc.h>

namespace espalier {

void give_back_free_memory() {
  ::malloc_zone_pressure_relief(nullptr, 0);
}

void return_large_blocks() {}  // the system's allocator does

}  // namespace espalier
