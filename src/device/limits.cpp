#include "device/limits.h"

#include <algorithm>
#include <chrono>

#include "kernels/cuda/peaks_task.h"

namespace espalier::device {
namespace {

using cuda::Peak;
using cuda::PeakTask;

constexpr double kLong = 0.01;  // seconds of a run, beside which those of a launch do not count
constexpr int kRuns = 4;        // of which the best counts
constexpr std::size_t kMostRead = std::size_t{1} << 30, kLeastRead = std::size_t{1} << 26;

Result<double> seconds(const Device& device, const PeakTask& task) {
  const auto begin = std::chrono::steady_clock::now();
  device.run(kEspalierReachPeak, task);
  ESP_CHECK(device.wait());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A second's work.
Result<double> rate(const Device& device, PeakTask task) {
  ESP_TRY(double took, seconds(device, task));  // the first one also loads the kernel
  while (took < kLong) {
    task.rounds =
        static_cast<std::int64_t>(static_cast<double>(task.rounds) * std::clamp(1.5 * kLong / took, 1.5, 50.0)) + 1;
    ESP_TRY(took, seconds(device, task));
  }
  double best = took;
  for (int run = 1; run < kRuns; ++run) {
    ESP_TRY(took, seconds(device, task));
    best = std::min(best, took);
  }
  return cuda::work_of(task) / best;
}

// Much more than a cache holds, as far as there is room; an emulated device is slow.
Result<Memory> memory_to_read(const Device& device) {
  if (device.shares_memory()) return device.allocate(std::size_t{1} << 20);
  for (std::size_t bytes = kMostRead; bytes > kLeastRead; bytes /= 2)
    if (auto memory = device.allocate(bytes); memory.ok()) return memory;
  return device.allocate(kLeastRead);
}

}  // namespace

Result<MachineLimits> measure_limits(const Device& device) {
  ESP_TRY(const Memory memory, memory_to_read(device));
  const int blocks = 4 * (device.shares_memory() ? 1 : device.multiprocessors());
  ESP_TRY(const Memory out, device.allocate(static_cast<std::size_t>(blocks) * cuda::kPeakThreads * sizeof(float)));
  device.fill(memory.data(), 1, memory.size());
  const auto of = [&](Peak peak) {
    return rate(device, {peak, blocks, 1, memory.as<const std::uint8_t>(), memory.size(), out.as<float>()});
  };
  MachineLimits limits;
  ESP_TRY(limits.read_bytes_per_second, of(Peak::reads));
  ESP_TRY(limits.f32_flops, of(Peak::f32));
  ESP_TRY(limits.int8_ops, of(Peak::int8));
  ESP_TRY(limits.bf16_flops, of(Peak::bf16));
  return limits;
}

}  // namespace espalier::device
