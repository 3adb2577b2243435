#include "base/threads/thread_priority.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <future>
#include <thread>

#include "base/threads/background_pool.h"

namespace espalier {
namespace {

int niceness() {
  return ::getpriority(PRIO_PROCESS, 0);
}

int niceness_in(BackgroundPool::Options options) {
  BackgroundPool pool(std::move(options));
  std::promise<int> found;
  EXPECT_TRUE(pool.submit([&](const CancelFlag&) { found.set_value(niceness()); }));
  return found.get_future().get();
}

// Nanoseconds; 0 where the kernel has one for all.
std::uint64_t turn() {
  std::array<std::uint64_t, 7> attributes{};  // struct sched_attr, whose runtime stands at byte 24
  static_cast<void>(::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof(attributes), 0u));
  return attributes[3];
}

TEST(ThreadPriority, WhoIsWaitedForHasShorterTurnsThanWhoComputesAndKeepsItsPriority) {
  const std::uint64_t usual = turn();
  if (usual == 0) GTEST_SKIP() << "this kernel gives all threads the same turns";
  const int own = niceness();
  std::uint64_t shorter = 0;
  int after = 0;
  std::thread([&] {
    shorten_thread_slices(std::chrono::microseconds(200)), shorter = turn(), after = niceness();
  }).join();
  EXPECT_LT(shorter, usual);
  EXPECT_EQ(after, own);
  EXPECT_EQ(turn(), usual);
}

TEST(ThreadPriority, OnlyThePoolThatStepsBackDoes) {
  const int own = niceness();
  EXPECT_GE(niceness_in({"behind", 1, 4, true}), std::max(own, 10));
  EXPECT_EQ(niceness_in({"beside", 1, 4}), own);
  EXPECT_EQ(niceness(), own);
}

}  // namespace
}  // namespace espalier
