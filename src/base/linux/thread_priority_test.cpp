#include "base/thread_priority.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <future>

#include "base/side_pool.h"

namespace espalier {
namespace {

int niceness() {
  return ::getpriority(PRIO_PROCESS, 0);
}

int niceness_in(SidePool::Options options) {
  SidePool pool(std::move(options));
  std::promise<int> found;
  EXPECT_TRUE(pool.submit([&](const CancelFlag&) { found.set_value(niceness()); }));
  return found.get_future().get();
}

TEST(ThreadPriority, OnlyThePoolThatStepsBackDoes) {
  const int own = niceness();
  EXPECT_GE(niceness_in({"behind", 1, 4, true}), std::max(own, 3));
  EXPECT_EQ(niceness_in({"beside", 1, 4}), own);
  EXPECT_EQ(niceness(), own);
}

}  // namespace
}  // namespace espalier
