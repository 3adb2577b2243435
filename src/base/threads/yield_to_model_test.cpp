#include "base/threads/yield_to_model.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/incremental_free.h"
#include "base/threads/background_pool.h"
#include "base/threads/compute_team.h"
#include "base/threads/processors.h"
#include "base/threads/thread_time.h"

namespace espalier {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

void compute_for(std::chrono::microseconds time) {
  for (const auto end = thread_time() + time; thread_time() < end;) {
  }
}

// How long a thread that yields to the model needs for so much work; on one of its own.
Clock::duration time_to_work(std::chrono::milliseconds work) {
  const auto begin = Clock::now();
  std::thread([&] {
    thread_yields_to_model = true;
    for (const auto end = thread_time() + work; thread_time() < end; yield_to_model()) compute_for(10us);
  }).join();
  return Clock::now() - begin;
}

TEST(YieldToModel, WhoYieldsWaitsBetweenShortTurnsWhileAModelHasAllProcessorsAndComesToAnEnd) {
  const ModelComputes model(own_processors().granted);
  EXPECT_GT(time_to_work(4ms), 40ms);
}

TEST(YieldToModel, OtherThreadsDoNotWait) {
  const ModelComputes model(own_processors().granted);
  for (int i = 0; i < 1'000'000; ++i) yield_to_model();  // 2,000 s if it waited each time
}

TEST(YieldToModel, AModelOnSomeProcessorsLeavesTheOthers) {
  if (own_processors().granted < 2) GTEST_SKIP() << "there is one processor";
  const ModelComputes model(own_processors().granted - 1);
  std::atomic<int> steps{0};
  std::thread([&] {
    thread_yields_to_model = true;
    for (; steps < 1'000'000; ++steps) yield_to_model();
  }).join();
  EXPECT_EQ(steps, 1'000'000);
}

TEST(YieldToModel, AMemberOfATeamThatSleepsIsSpare) {
  if (own_processors().granted < 2) GTEST_SKIP() << "there is one processor";
  ComputeTeam team(own_processors().granted);
  const ModelComputes model(team.size());
  team.run(64, [](int) { compute_for(10us); });
  std::this_thread::sleep_for(50ms);  // they sleep now
  std::thread([&] {
    thread_yields_to_model = true;
    for (int i = 0; i < 1'000'000; ++i) yield_to_model();
  }).join();
}

struct Noted {
  std::vector<int>* freed = nullptr;
  int number = 0;
  ~Noted() {
    if (freed != nullptr) freed->push_back(number);
  }
};

std::shared_ptr<void> noted(std::vector<int>& freed, int number) {
  auto made = std::make_shared<Noted>();
  made->freed = &freed, made->number = number;
  return made;
}

TEST(IncrementallyFreed, APoolThatYieldsFreesWhatIsLeftBehindItsTasks) {
  std::vector<int> freed;
  {
    BackgroundPool pool({"slow", 1, 4, true});
    std::atomic<bool> both{false};
    const auto leave = [&](int number) {
      return [&freed, &both, number](const CancelFlag&) {
        while (!both) std::this_thread::yield();
        free_after_task(noted(freed, number));
        EXPECT_TRUE(freed.empty()) << "another task waits, or this one is not done";
      };
    };
    ASSERT_TRUE(pool.submit(leave(1)));
    ASSERT_TRUE(pool.submit(leave(2)));
    both = true;
    for (const auto end = Clock::now() + 60s; pool.waiting() + pool.running() > 0 && Clock::now() < end;)
      std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(freed, (std::vector<int>{1, 2}));
}

TEST(IncrementallyFreed, OtherThreadsFreeAtOnce) {
  std::vector<int> freed;
  free_after_task(noted(freed, 1));
  EXPECT_EQ(freed, std::vector<int>{1});
}

TEST(IncrementallyFreed, MovingAndFreeingAreThoseOfTheContainer) {
  using Texts = IncrementallyFreed<std::vector<std::shared_ptr<int>>>;
  for (const bool aside : {false, true}) {
    std::thread([aside] {
      thread_yields_to_model = aside;
      const auto counted = std::make_shared<int>(1);
      {
        Texts texts(1000, counted);
        Texts moved = std::move(texts);
        EXPECT_EQ(moved.size(), 1000u);
        moved = Texts(10, counted);
        EXPECT_EQ(counted.use_count(), 11);
      }
      EXPECT_EQ(counted.use_count(), 1);
    }).join();
  }
}

}  // namespace
}  // namespace espalier
