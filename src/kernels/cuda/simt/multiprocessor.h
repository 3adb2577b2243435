// multiprocessor.h: what a multiprocessor of the architecture that is compiled for has room for.
//
// For launch bounds (registers need not be left for blocks that shared memory has no room for) and for how far loops are unrolled:
// kernels shall not spill.
// Source: "Compute Capabilities" of the CUDA C++ Programming Guide. Threads: any. Fails: never.
#pragma once

namespace espalier::simt {

// Bytes of shared memory of all blocks together.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
inline constexpr int kSharedBytes = 100 * 1024;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr int kSharedBytes = 164 * 1024;
#else
inline constexpr int kSharedBytes = 228 * 1024;
#endif
// Whether the compiler keeps more values alive at a time than for the architectures before (nvcc 13.0 for Blackwell).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
inline constexpr bool kKeepsMore = true;
#else
inline constexpr bool kKeepsMore = false;
#endif
inline constexpr int kSharedBytesOfSystem = 1024;  // of each block, besides its own

// Of `wanted` blocks with so many bytes each, how many there is room for; one at least.
constexpr int blocks_with_room(int wanted, int bytes) {
  const int room = kSharedBytes / (bytes + kSharedBytesOfSystem);
  return room < 1 ? 1 : room < wanted ? room : wanted;
}

}  // namespace espalier::simt
