#include "base/threads/compute_team.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <random>
#include <vector>

#include "testing/data.h"

namespace espalier {
namespace {

TEST(ComputeTeam, EveryChunkRunsExactlyOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ComputeTeam team(threads);
    ASSERT_EQ(team.size(), threads);
    for (int chunks : {0, 1, 2, 3, 17, 1000}) {
      std::vector<std::atomic<int>> count(static_cast<std::size_t>(chunks));
      team.run(chunks, [&](int chunk) { count[static_cast<std::size_t>(chunk)]++; });
      for (auto& c : count) ASSERT_EQ(c.load(), 1);
    }
  }
}

TEST(ComputeTeam, ManyShortJobsInARowSeeTheirOwnData) {
  ComputeTeam team(3);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<int> out(5, -1);
    team.run(5, [&](int chunk) { out[static_cast<std::size_t>(chunk)] = round + chunk; });
    for (int i = 0; i < 5; ++i) ASSERT_EQ(out[static_cast<std::size_t>(i)], round + i);
  }
}

TEST(ComputeTeam, JobsOfMoreChunksThanAShareCanCountRunEveryChunkOnce) {
  ComputeTeam team(2);
  std::vector<std::atomic<int>> count(200'001);
  team.run(static_cast<int>(count.size()), [&](int chunk) { count[static_cast<std::size_t>(chunk)]++; });
  for (auto& c : count) ASSERT_EQ(c.load(), 1);
}

TEST(ComputeTeam, BehindAChunkComesTheNextOneOfItsShare) {
  for (int threads : {1, 2, 3, 4, 7}) {
    ComputeTeam team(threads);
    for (int chunks : {1, 2, 3, 5, 16, 100}) {
      std::vector<bool> first(static_cast<std::size_t>(chunks) + 1);
      for (int member = 0; member <= threads; ++member)
        first[static_cast<std::size_t>(team.share_begin(member, chunks))] = true;
      for (int chunk = 0; chunk < chunks; ++chunk)
        ASSERT_EQ(team.behind(chunk, chunks), first[static_cast<std::size_t>(chunk) + 1] ? -1 : chunk + 1)
            << chunk << " of " << chunks << " on " << threads;
    }
  }
}

// The first chunk ends when all others have: those behind it in its share are for the other members.
TEST(ComputeTeam, WhoIsHeldUpLosesTheRestOfItsShareToTheOthers) {
  for (int threads : {2, 3}) {
    ComputeTeam team(threads);
    for (int round = 0; round < 100; ++round) {
      constexpr int kChunks = 64;
      std::atomic<int> others{0};
      team.run(kChunks, [&](int chunk) {
        if (chunk > 0) return void(++others);
        while (others != kChunks - 1) std::this_thread::yield();
      });
      ASSERT_EQ(others, kChunks - 1);
    }
  }
}

// Addresses are only asked for: memory that is gone, or was never there, disturbs nobody.
TEST(ComputeTeam, ExpectingMemoryThatIsNotThereChangesNothing) {
  ComputeTeam team(3);
  for (std::uintptr_t at : {std::uintptr_t{0}, std::uintptr_t{64}, ~std::uintptr_t{0} - (std::uintptr_t{2} << 40)}) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of nothing is what is tried
    team.expect({reinterpret_cast<const std::byte*>(at), 1 << 20, std::size_t{1} << 40});
    std::atomic<int> sum{0};
    team.run(1000, [&](int chunk) { sum += chunk; });
    ASSERT_EQ(sum, 499'500);
  }
}

// A member that still holds the ticket of a small job must not take a chunk of the larger one that follows for its own.
TEST(ComputeTeam, JobsOfChangingSizeRunEveryChunkOnce) {
  std::mt19937_64 rng(testing::seed());
  for (int threads : {2, 3, 5}) {
    ComputeTeam team(threads);
    std::vector<std::atomic<int>> count(40);
    for (int round = 0; round < 60'000; ++round) {
      const int chunks = 2 + static_cast<int>(rng() % 39);
      for (int i = 0; i < chunks; ++i) count[static_cast<std::size_t>(i)].store(0, std::memory_order_relaxed);
      team.run(chunks,
               [&](int chunk) { count[static_cast<std::size_t>(chunk)].fetch_add(1, std::memory_order_relaxed); });
      for (int i = 0; i < chunks; ++i) ASSERT_EQ(count[static_cast<std::size_t>(i)].load(), 1) << "of " << chunks;
    }
  }
}

TEST(ComputeTeam, SleepingMembersWakeForTheNextJob) {
  ComputeTeam team(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> sum{0};
    team.run(64, [&](int chunk) { sum += chunk; });
    ASSERT_EQ(sum.load(), 64 * 63 / 2);
  }
}

// While it lives every new thread wants more stack than there are addresses, so none can start.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 62);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoMoreThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST(ComputeTeam, WithoutThreadsItIsSmallerSaysWhyAndStillComputes) {
  const NoMoreThreads limit;
  ComputeTeam team(4);
  EXPECT_EQ(team.size(), 1);
  ASSERT_TRUE(team.shortage());
  EXPECT_EQ(team.shortage()->exit_code(), 4);
  EXPECT_NE(team.shortage()->message.find("ulimit -u"), std::string::npos) << team.shortage()->message;
  std::atomic<int> sum{0};
  team.run(10, [&](int chunk) { sum += chunk; });
  EXPECT_EQ(sum, 45);
}

TEST(ComputeTeam, HasNoShortageWhenAllStarted) {
  EXPECT_FALSE(ComputeTeam(3).shortage());
}

}  // namespace
}  // namespace espalier
