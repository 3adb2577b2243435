// machine_limits.h: what this machine's memory and multipliers give, measured on the spot, as the yardstick of every
// speed.
//
// Threads: run these while nothing else computes. measure_limits() takes about 200 ms at the default effort, and as
// long again where the kernel has to find the memory of its buffer, which a ReadProbe keeps. Fails: never; a figure
// that cannot be had (no bf16 instructions) is 0.
#pragma once

#include "base/threads/compute_team.h"
#include "kernels/cpu/table.h"
#include "tensor/page_buffer.h"

namespace espalier {

// The best of so many passes of the team over a buffer well above any last-level cache share we meet.
struct ReadRate {
  double bytes_per_second = 0;  // 0: there was no memory for the buffer
  bool huge_pages = false;      // whether the kernel granted them (AnonHugePages)
};
// Measures how fast memory is read.
class ReadProbe {
 public:
  explicit ReadProbe(PageBuffer::Pages pages);
  ReadRate measure(const CpuKernels& cpu, ComputeTeam& team, int passes) const;

 private:
  PageBuffer buffer_;
  bool huge_pages_ = false;
};
ReadRate measure_reads(const CpuKernels& cpu, ComputeTeam& team, PageBuffer::Pages pages, int passes);

// What was measured.
struct MachineLimits {
  double read_bytes_per_second = 0;  // best pass over a buffer larger than the caches, huge pages asked for
  double f32_flops = 0, bf16_flops = 0, int8_ops = 0;
  bool huge_pages = false;  // whether the kernel granted them (AnonHugePages)
};

MachineLimits measure_limits(const CpuKernels& cpu, ComputeTeam& team, double effort = 1.0);
MachineLimits measure_limits(const CpuKernels& cpu, ComputeTeam& team, const ReadProbe& reads, double effort);
// Of each figure the larger one: a neighbour's work can only lower a measurement.
MachineLimits best_of(const MachineLimits& a, const MachineLimits& b);
// Without the reads, which do not depend on the instruction set.
MachineLimits measure_multipliers(const CpuKernels& cpu, ComputeTeam& team, double effort);

}  // namespace espalier
