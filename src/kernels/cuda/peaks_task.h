// peaks_task.h: what keeps a device's memory, or its multipliers, as busy as they can be: the yardstick of every speed there.
//
// Each warp does so many rounds of one thing. How much work that is the host counts (work_of()), and how long it takes it measures
// (device/limits.h). bf16 is Hopper's wgmma there, else mma; int8 is mma.
// Units: bytes; operations, a product and a sum being two. Threads: asynchronous on a stream. Fails: never.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/simt/simt.h"

namespace espalier::cuda {

// What is kept busy: the memory, or multipliers of a type.
enum class Peak { reads, f32, int8, bf16 };

inline constexpr int kPeakThreads = 256;  // of a block

// Work of so many blocks.
struct PeakTask {
  Peak peak;
  int blocks;
  std::int64_t rounds;
  const std::uint8_t* memory;  // reads: all of it in a round
  std::size_t bytes;           // of it, a multiple of 16
  float* out;                  // [blocks x kPeakThreads] what cannot be known without the work
};
void reach_peak(simt::Stream stream, const PeakTask& task);

// In a round of a warp: what 32 steps of mma do, 64 sums of each thread, or a step of wgmma by its four warps.
inline constexpr double kF32Round = 2.0 * 32 * 64, kInt8Round = 2.0 * 32 * 16 * 8 * 32,
                        kBf16Round = 2.0 * 32 * 16 * 8 * 16;
static_assert(4 * kBf16Round == 2.0 * 64 * 256 * 16);

// Bytes, or operations, of a task.
inline double work_of(const PeakTask& task) {
  const auto rounds = static_cast<double>(task.rounds), warps = task.blocks * (kPeakThreads / 32.0);
  switch (task.peak) {
    case Peak::reads:
      return rounds * static_cast<double>(task.bytes);
    case Peak::f32:
      return rounds * warps * kF32Round;
    case Peak::int8:
      return rounds * warps * kInt8Round;
    default:
      return rounds * warps * kBf16Round;
  }
}

}  // namespace espalier::cuda
