#include "base/threads/shared_team.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace espalier::shared_team_test {
namespace {

// Sums of a job's chunks by a team that several callers share: each must be as if the caller were alone.
TEST(SharedTeam, CallersThatTakeTurnsEachComputeTheWholeOfTheirJobs) {
  constexpr int kCallers = 4, kJobs = 300, kChunks = 37;
  SharedTeam shared(3, {});
  std::vector<std::vector<int>> seen(kCallers, std::vector<int>(kJobs * kChunks, 0));
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c)
    callers.emplace_back([&, c] {
      for (int job = 0; job < kJobs; ++job) {
        const SharedTeam::Turn turn(shared);
        shared.team().run(kChunks, [&](int chunk) { ++seen[c][job * kChunks + chunk]; });
      }
    });
  for (auto& caller : callers) caller.join();
  for (const auto& of_caller : seen) EXPECT_EQ(of_caller, std::vector<int>(kJobs * kChunks, 1));
}

TEST(SharedTeam, OneTurnAtATime) {
  SharedTeam shared(1, {});
  int inside = 0, most = 0;  // guarded by the turn itself
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        SharedTeam::Turn turn(shared);
        most = std::max(most, ++inside);
        --inside;
        turn.pass();
        most = std::max(most, ++inside);
        --inside;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(most, 1);
}

// Who passes its turn on comes back behind those that waited, never before.
TEST(SharedTeam, PassingLetsThoseThatWaitGoFirst) {
  SharedTeam shared(1, {});
  std::atomic<bool> other_had_it{false}, other_asks{false};
  SharedTeam::Turn turn(shared);
  std::thread other([&] {
    other_asks = true;
    const SharedTeam::Turn of_other(shared);
    other_had_it = true;
  });
  while (!other_asks) std::this_thread::yield();
  while (!other_had_it) turn.pass();  // until the other's request has been seen
  other.join();
  EXPECT_TRUE(other_had_it);
}

}  // namespace
}  // namespace espalier::shared_team_test
