// kernel_work.h: every kernel at the shapes of real models, timed against what this machine gives at best.
//
// Units: seconds, bytes, operations (a multiply-add is two). Bytes are those that must be read or written once;
// weights, keys and values are taken from more copies than a cache holds. Threads: the team's; nothing else should
// compute meanwhile. Fails: out_of_memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "kernels/machine_limits.h"
#include "tensor/dtype.h"

namespace espalier::bench {

enum class Multiplier { none, f32, bf16, int8 };  // whose peak bounds a kernel; none: memory alone does

struct KernelResult {
  std::string kernel, model, part, type;  // "matmul", "1b", "gate_up 2048x16384", "Q4_0"
  int rows = 0;
  double seconds = 0, bytes = 0, operations = 0;
  Multiplier multiplier = Multiplier::none;

  double bytes_per_second() const { return bytes / seconds; }
  double operations_per_second() const { return operations / seconds; }
};

double peak_of(const MachineLimits& limits, Multiplier multiplier);
// What the nearer limit would take, as a share of what was taken.
double roofline_share(const KernelResult& result, const MachineLimits& limits);

struct KernelSelection {
  std::vector<std::string> kernels = {"matmul", "attention", "elementwise", "sampling", "recurrent"};
  std::vector<std::string> models = {"1b"};  // smollm2, 1b, 8b
  std::vector<DType> types = {DType::q4_0, DType::q8_0, DType::q4_k, DType::q6_k, DType::bf16};
  std::vector<int> rows = {1, 4, 8, 16, 32, 64, 128, 512};
  double seconds_each = 0.05;  // of measuring; the best pass counts
};
std::vector<std::string> kernel_models();

struct KernelMachine {
  const CpuKernels& cpu;
  ComputeTeam& team;
};
Result<> measure_kernels(const KernelSelection& selection, const KernelMachine& machine,
                         const std::function<void(const KernelResult&)>& report);

}  // namespace espalier::bench
