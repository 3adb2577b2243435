// block_scan.h: what the threads of a block before each one have, summed up.
//
// Threads: all of a block together. Fails: never.
#pragma once

#include "kernels/cuda/simt/simt.h"

namespace espalier::cuda {

// The sum of all threads' numbers before this one's, and of all. of_warps: shared memory, an int for each warp.
struct BlockScan {
  int before, all;
  ESPALIER_ON_DEVICE BlockScan(int number, int* of_warps) {
    const int lane = simt::thread() % 32, warp = simt::thread() / 32;
    int upto = number;
    ESPALIER_UNROLL(1)  // its callers have no registers left
    for (int step = 1; step < 32; step *= 2) {
      const int other = simt::of_neighbour<32>(upto, (lane - step) & 31);
      if (lane >= step) upto += other;
    }
    simt::meet();  // others may still read what was there
    if (lane == 31) of_warps[warp] = upto;
    simt::meet();
    before = upto - number;
    all = 0;
    ESPALIER_UNROLL(1)
    for (int w = 0; w < simt::threads() / 32; ++w) {
      if (w < warp) before += of_warps[w];
      all += of_warps[w];
    }
  }
};

}  // namespace espalier::cuda
