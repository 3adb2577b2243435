#include "base/threads/background_pool.h"

#include <gtest/gtest.h>

#include <future>
#include <random>

#include "base/threads/yield_to_model.h"
#include "testing/data.h"

namespace espalier {
namespace {

// Holds pool threads until it is opened.
class Gate {
 public:
  void wait() {
    ++waiting_;
    future_.wait();
  }
  void open() { promise_.set_value(); }
  int waiting() const { return waiting_; }
  void until_waiting(int count) const {
    while (waiting_ < count) std::this_thread::yield();
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_{promise_.get_future()};
  std::atomic<int> waiting_{0};
};

TEST(BackgroundPool, RunsTasksInOrderAndTakesMoveOnlyOnes) {
  std::vector<int> seen;
  std::promise<void> done;
  BackgroundPool pool({"order", 1, 100});  // last, here and below: its threads end before what they use
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(pool.submit([&seen, value = std::make_unique<int>(i)](const CancelFlag&) { seen.push_back(*value); }));
  }
  ASSERT_TRUE(pool.submit([&](const CancelFlag&) { done.set_value(); }));
  done.get_future().wait();
  ASSERT_EQ(seen.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST(BackgroundPool, RefusesWhenTheQueueIsFullAndTakesAgainWhenItIsNot) {
  Gate gate;
  std::atomic<int> ran{0};
  BackgroundPool pool({"full", 2, 3});
  auto hold = [&](const CancelFlag&) { gate.wait(); };
  ASSERT_TRUE(pool.submit(hold));
  ASSERT_TRUE(pool.submit(hold));
  gate.until_waiting(2);
  auto count = [&](const CancelFlag&) { ++ran; };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.submit(count)) << i;
  EXPECT_FALSE(pool.submit(count));
  EXPECT_EQ(pool.waiting(), 3u);
  EXPECT_EQ(pool.running(), 2u);
  gate.open();
  while (ran < 3) std::this_thread::yield();
  EXPECT_TRUE(pool.submit(count));
  while (ran < 4) std::this_thread::yield();
}

TEST(BackgroundPool, ACancelledTaskThatWaitsNeverRunsAndARunningOneSeesTheFlag) {
  CancelFlag running, waiting;
  std::atomic<bool> started{false}, saw{false}, ran{false};
  BackgroundPool pool({"cancel", 1, 10});
  ASSERT_TRUE(pool.submit(
      [&](const CancelFlag& flag) {
        started = true;
        while (!flag.cancelled()) std::this_thread::yield();
        saw = true;
      },
      running));
  auto destroyed = std::make_shared<int>(0);
  std::weak_ptr<int> watch = destroyed;
  ASSERT_TRUE(pool.submit([&ran, held = std::move(destroyed)](const CancelFlag&) { ran = true; }, waiting));
  while (!started) std::this_thread::yield();
  waiting.cancel();
  running.cancel();
  while (!watch.expired()) std::this_thread::yield();
  EXPECT_TRUE(saw);
  EXPECT_FALSE(ran);
}

TEST(BackgroundPool, ATaskThatThrowsIsCountedAndTheThreadGoesOn) {
  std::promise<void> done;
  BackgroundPool pool({"throw", 1, 10});
  ASSERT_TRUE(pool.submit([](const CancelFlag&) { throw std::runtime_error("meant by the test"); }));
  ASSERT_TRUE(pool.submit([](const CancelFlag&) { throw 7; }));
  ASSERT_TRUE(pool.submit([&](const CancelFlag&) { done.set_value(); }));
  done.get_future().wait();
  EXPECT_EQ(pool.failures(), 2u);
}

TEST(BackgroundPool, StopCancelsWhatRunsDropsWhatWaitsAndRefusesWhatComes) {
  std::atomic<bool> started{false}, ran{false};
  BackgroundPool pool({"stop", 1, 10});
  ASSERT_TRUE(pool.submit([&](const CancelFlag& flag) {
    started = true;
    while (!flag.cancelled()) std::this_thread::yield();
  }));
  ASSERT_TRUE(pool.submit([&](const CancelFlag&) { ran = true; }));
  while (!started) std::this_thread::yield();
  pool.stop();
  EXPECT_FALSE(ran);
  EXPECT_FALSE(pool.submit([&](const CancelFlag&) { ran = true; }));
  EXPECT_EQ(pool.waiting() + pool.running(), 0u);
}

TEST(BackgroundPool, EveryTaskIsEitherRunOrDestroyedUnderRandomLoad) {
  std::mt19937_64 random(testing::seed());
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> alive{0}, ran{0};
    int accepted = 0;
    {
      BackgroundPool pool({"random", 1 + static_cast<unsigned>(random() % 4), 1 + random() % 16});
      for (int i = 0; i < 500; ++i) {
        ++alive;
        std::shared_ptr<void> token(nullptr, [&](void*) { --alive; });
        CancelFlag flag;
        if (random() % 8 == 0) flag.cancel();
        accepted += pool.submit([&ran, token = std::move(token)](const CancelFlag&) { ++ran; }, flag);
        if (random() % 32 == 0) std::this_thread::yield();
      }
      if (random() % 2 == 0) pool.stop();
    }
    EXPECT_EQ(alive, 0) << "round " << round;
    EXPECT_LE(ran, accepted);
  }
}

// As long as its task looks at the time, the pool's only thread is no more than one of them.
TEST(BackgroundPool, ALongTaskLeavesItsPlaceToOthers) {
  std::atomic<int> working{0}, left{0};
  std::atomic<bool> may_end{false};
  BackgroundPool pool({.name = "long", .threads = 1, .long_after = std::chrono::milliseconds(1)});
  const auto work = [&](const CancelFlag&) {
    ++working;
    while (!may_end) check_long_work(std::chrono::steady_clock::now());
    ++left;
  };
  for (int round = 0; round < 3; ++round) {
    working = left = 0;
    may_end = false;
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.submit(work));
    while (working < 5) std::this_thread::yield();
    std::promise<bool> quick;
    ASSERT_TRUE(pool.submit([&](const CancelFlag&) { quick.set_value(thread_yields_to_model); }));
    EXPECT_FALSE(quick.get_future().get()) << "who did not take long is not put back";
    EXPECT_EQ(left, 0);
    may_end = true;
    while (left < 5) std::this_thread::yield();
  }
  while (pool.running() > 0) std::this_thread::yield();
}

TEST(BackgroundPool, StopsWhileLongTasksWork) {
  std::atomic<int> working{0};
  BackgroundPool pool({.name = "long", .threads = 2, .long_after = std::chrono::milliseconds(1)});
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(pool.submit([&](const CancelFlag& cancel) {
      ++working;
      while (!cancel.cancelled()) check_long_work(std::chrono::steady_clock::now());
    }));
  while (working < 6) std::this_thread::yield();
  pool.stop();
  EXPECT_EQ(pool.running(), 0u);
}

}  // namespace
}  // namespace espalier
