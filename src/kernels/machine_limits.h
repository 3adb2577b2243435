// machine_limits.h: what this machine's memory and multipliers give, measured on the spot, as the yardstick of every
// speed.
//
// Threads: run it while nothing else computes. Takes about 200 ms at the default effort. Fails: never; a figure that
// cannot be had (no bf16 instructions) is 0.
#pragma once

#include "base/compute_team.h"
#include "kernels/cpu/table.h"

namespace espalier {

struct MachineLimits {
  double read_bytes_per_second = 0;  // best pass over a buffer larger than the caches, huge pages asked for
  double f32_flops = 0, bf16_flops = 0, int8_ops = 0;
  bool huge_pages = false;  // whether the kernel granted them (AnonHugePages)
};

MachineLimits measure_limits(const CpuKernels& cpu, ComputeTeam& team, double effort = 1.0);

}  // namespace espalier
