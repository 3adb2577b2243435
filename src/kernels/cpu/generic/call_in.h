// call_in.h: asks memory for what comes next, into the cache that takes it best (prefetch_level.h).
//
// Threads: any. Fails: never; no address is too far.
#pragma once

#include "kernels/cpu/prefetch_level.h"

namespace espalier::kernels::ESPALIER_ISA {

// The line at an address.
[[gnu::always_inline]] inline void call_in(const void* line) {
  if (kIntoFirstLevel)
    __builtin_prefetch(line, 0, 3);
  else
    __builtin_prefetch(line, 0, 2);
}

}  // namespace espalier::kernels::ESPALIER_ISA
