#include "base/system/free_memory.h"

#include <malloc.h>

namespace espalier {

void give_back_free_memory() {
  ::malloc_trim(0);
}

}  // namespace espalier
