// call_in.h: asks memory for what comes next, into the second-level cache.
//
// The first level has room for some twenty lines under way, which at memory's latency is half of its bandwidth (Zen 4,
// AVX-512, attention of 32 sequences of 2,048 on one thread: 14 GB/s into the first level, 19 into the second); and the
// panels of weights that come next are larger than it. Threads: any. Fails: never; no address is too far.
#pragma once

namespace espalier::kernels::ESPALIER_ISA {

// The line at an address.
[[gnu::always_inline]] inline void call_in(const void* line) {
  __builtin_prefetch(line, 0, 2);
}

}  // namespace espalier::kernels::ESPALIER_ISA
