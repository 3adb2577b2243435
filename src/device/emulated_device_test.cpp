// The emulated device of all tests here: in which order it runs threads, and what it finds when it is strict
// (library/emu_memory.h): a program that treats a GPU's memory as its own, or too early.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>

#include "device/device.h"
#include "testing/data.h"

namespace espalier::device {
namespace {

// By the seed, so that barriers that only some orders need are found in time.
class OrderOfThreads : public ::testing::Environment {
  static constexpr std::uint64_t kOrders = 10;
  void SetUp() override {
    ::setenv("ESPALIER_EMU_ORDER", std::to_string(testing::seed() % kOrders).c_str(), /*overwrite=*/0);
  }
};
// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): it is GoogleTest's
const auto* const order_of_threads = ::testing::AddGlobalTestEnvironment(new OrderOfThreads());

class StrictEmulatedDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const asked = std::getenv("ESPALIER_EMU_STRICT");
    if (asked == nullptr || std::string_view(asked) != "1") GTEST_SKIP() << "left out: ESPALIER_EMU_STRICT is not 1";
  }
  const std::unique_ptr<Device> device_ = Device::open(Kind::emu).value();
};

TEST_F(StrictEmulatedDevice, KeepsTheHostOffItsMemory) {
  const Memory memory = device_->allocate(64).value();
  EXPECT_EXIT(static_cast<volatile int*>(memory.as<int>())[0] = 1, ::testing::KilledBySignal(SIGSEGV), "");
  const Memory of_host = device_->allocate_host(64).value();
  of_host.as<int>()[0] = 1;
}

TEST_F(StrictEmulatedDevice, DoesWhatItIsAskedWhenItIsWaitedFor) {
  const Memory there = device_->allocate(sizeof(int)).value();
  int up = 1, down = 0;
  device_->copy(there.data(), &up, sizeof up);
  device_->copy(&down, there.data(), sizeof down);
  up = 2;
  EXPECT_EQ(down, 0);
  ASSERT_TRUE(device_->wait().ok());
  EXPECT_EQ(down, 2);
}

TEST_F(StrictEmulatedDevice, HasNoZerosInMemoryThatWasNotWritten) {
  const Memory there = device_->allocate(sizeof(int)).value();
  int down = 0;
  device_->copy(&down, there.data(), sizeof down);
  ASSERT_TRUE(device_->wait().ok());
  EXPECT_NE(down, 0);
}

}  // namespace
}  // namespace espalier::device
