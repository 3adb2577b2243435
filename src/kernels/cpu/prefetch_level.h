// prefetch_level.h: which cache takes lines that are called in ahead of their use; a fact of the processor, asked once.
//
// The first level has room for some twenty lines under way on most processors, which at memory's latency is half of its
// bandwidth, so lines go to the second (Zen 4, AVX-512, attention of 32 sequences of 2,048 on one thread: 14 GB/s into
// the first level, 19 into the second). Zen 5's has more (32 sequences of 512 on two threads: 48 to 53 GB/s into the
// second level, 65 to 72 into the first; products of 12 rows 618 against 683 GOP/s). Threads: any.
#pragma once

namespace espalier::kernels {

extern const bool kIntoFirstLevel;

}  // namespace espalier::kernels
