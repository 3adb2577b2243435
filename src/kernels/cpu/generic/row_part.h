// row_part.h: who computes a row: on a CPU one thread, on a device several sixteens of threads, each of which takes some pieces
// of it and computes sums over all of it for itself.
//
// ESPALIER_LANES stands before every function here that a device's kernels call too.
// Order: meet() stands where a sixteen reads what others wrote, or writes what others still read. Threads: all of a block.
#pragma once

#ifdef __CUDACC__
#define ESPALIER_LANES __device__
#else
#define ESPALIER_LANES
#endif

#ifndef ESPALIER_LANES_ARE_THREADS  // else kernels/cuda/simt/simd.h says it
namespace espalier::kernels::ESPALIER_ISA {

inline constexpr bool kRowsAreShared = false;
constexpr int row_part() {
  return 0;
}
constexpr int row_parts() {
  return 1;
}
// Whether this lane stores what is one value of its sixteen.
constexpr bool stores_for_all() {
  return true;
}
inline void meet() {}

}  // namespace espalier::kernels::ESPALIER_ISA
#endif
