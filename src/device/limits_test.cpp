#include "device/limits.h"

#include <gtest/gtest.h>

#include <vector>

#include "device/kernels/random_panels.h"
#include "device/tested_devices.h"
#include "kernels/cuda/peaks_task.h"

namespace espalier::device {
namespace {

using cuda::Peak;
using cuda::PeakTask;

TEST(DeviceLimits, AreMeasured) {
  for (const Kind kind : testing::device_kinds()) {
    const auto device = Device::open(kind).value();
    const MachineLimits limits = measure_limits(*device).value();
    for (const double rate : {limits.read_bytes_per_second, limits.f32_flops, limits.int8_ops, limits.bf16_flops}) {
      EXPECT_GT(rate, 0.0);
      EXPECT_LT(rate, 1e17);
    }
  }
}

// All that is counted as read is read: a byte anywhere changes what some thread has seen.
TEST(DeviceLimits, ReadAllOfTheMemory) {
  for (const Kind kind : testing::device_kinds()) {
    const auto device = Device::open(kind).value();
    std::vector<std::uint32_t> words(4 * (4 * 2 * cuda::kPeakThreads + 2 * 3 + 1));
    const auto seen = [&] {
      const Memory memory = testing::on_device(*device, words);
      const auto out = device->allocate(2 * cuda::kPeakThreads * sizeof(float)).value();
      device->run(kEspalierReachPeak,
                  PeakTask{Peak::reads, 2, 2, memory.as<const std::uint8_t>(), memory.size(), out.as<float>()});
      return testing::from_device<float>(*device, out);
    };
    const auto before = seen();
    for (const std::size_t at : {std::size_t{0}, std::size_t{4 * 511 + 3}, words.size() / 2, words.size() - 1}) {
      words[at] = 1;
      EXPECT_NE(seen(), before) << "word " << at;
      words[at] = 0;
    }
  }
}

}  // namespace
}  // namespace espalier::device
