#include "engine/schedule/scheduler.h"

#include <gmock/gmock.h>

namespace espalier::scheduler_test {
namespace {

using ::testing::ElementsAre;

std::vector<int> all_of(SchedulePolicy policy, const std::vector<WaitingView>& waiting) {
  AdmissionOrder order(policy, waiting);
  std::vector<int> out;
  for (int i; (i = order.next()) >= 0;) out.push_back(i);
  return out;
}

WaitingView waiting(std::uint64_t arrival, int matched = 0) {
  WaitingView view;
  view.arrival = arrival;
  view.matched = matched;
  return view;
}

TEST(Scheduler, LongestPrefixGoesFirstAndTiesGoByArrival) {
  const std::vector<WaitingView> views = {waiting(1), waiting(2, 100), waiting(3, 40), waiting(4, 100)};
  EXPECT_THAT(all_of(SchedulePolicy::lpm, views), ElementsAre(1, 3, 2, 0));
  EXPECT_THAT(all_of(SchedulePolicy::fcfs, views), ElementsAre(0, 1, 2, 3));
}

TEST(Scheduler, EachPolicyHasItsKey) {
  std::vector<WaitingView> views = {waiting(1), waiting(2), waiting(3)};
  views[1].output = 100;
  views[2].output = 50;
  EXPECT_THAT(all_of(SchedulePolicy::lof, views), ElementsAre(1, 2, 0));
  views[2].priority = 5;
  views[0].priority = -1;
  EXPECT_THAT(all_of(SchedulePolicy::priority, views), ElementsAre(2, 1, 0));
  views[0].branch = 2;
  views[2].branch = 1;
  EXPECT_THAT(all_of(SchedulePolicy::dfs_weight, views), ElementsAre(1, 2, 0));
  EXPECT_THAT(all_of(SchedulePolicy::random, views), ::testing::UnorderedElementsAre(0, 1, 2));
}

TEST(Scheduler, ARequestThatWasPassedOverTooOftenGoesFirst) {
  std::vector<WaitingView> views = {waiting(1), waiting(2, 100)};
  views[0].steps_passed_over = kAgeingBound;
  EXPECT_THAT(all_of(SchedulePolicy::lpm, views), ElementsAre(0, 1));
}

TEST(Scheduler, BackgroundWorkGoesLastAndTenantsTakeTurns) {
  std::vector<WaitingView> views = {waiting(1, 500), waiting(2, 20), waiting(3, 10), waiting(4, 30)};
  views[0].background = true;
  views[1].turn.tenant = 2;
  views[2].turn.tenant = 1;
  views[3].turn.tenant = 1;
  EXPECT_THAT(all_of(SchedulePolicy::lpm, views), ElementsAre(3, 2, 1, 0));
}

TEST(Scheduler, AgeMattersWithinATenantOnlyAndUsersAreItsOwnAffair) {
  std::vector<WaitingView> views = {waiting(1), waiting(2), waiting(3), waiting(4)};
  for (int flooding : {0, 1}) {
    views[static_cast<std::size_t>(flooding)].steps_passed_over = kAgeingBound;
    views[static_cast<std::size_t>(flooding)].turn.tenant = 3;
  }
  views[2].turn = {1, 5};
  views[3].turn = {1, 2};
  EXPECT_THAT(all_of(SchedulePolicy::lpm, views), ElementsAre(3, 2, 0, 1));
}

TEST(FairShare, ATenantThatComesBackStartsLevelAndItsUsersShareItsTurns) {
  FairShare shares;
  FairShare::Place busy = shares.arrives("a", "one"), other = shares.arrives("a", "two");
  busy.charge(10 * FairShare::kQuantum);
  EXPECT_EQ(busy.turn(), (Turn{10, 10}));
  EXPECT_EQ(other.turn(), (Turn{10, 0})) << "a fresh user does not lower the turn of its tenant";
  FairShare::Place late = shares.arrives("b", "");
  EXPECT_EQ(late.turn(), (Turn{10, 0}));
  late.charge(5 * FairShare::kQuantum);
  busy = {};
  other = {};
  EXPECT_EQ(shares.arrives("a", "one").turn(), (Turn{15, 0}));
}

TEST(Scheduler, DecodingSequencesAreNeverHeldUpByPrompts) {
  const std::vector<RunningNeed> running = {{700}, {1, true}, {1, true}, {300}, {1, true}};
  EXPECT_THAT(running_chunks(running, 512), ElementsAre(512, 1, 1, 0, 1));
  EXPECT_THAT(running_chunks(running, 800), ElementsAre(700, 1, 1, 100, 1));
}

TEST(Scheduler, TextThatWasForcedIsReadBeforePrompts) {
  const std::vector<RunningNeed> running = {{700}, {1, true}, {20, true}, {400, true}};
  EXPECT_THAT(running_chunks(running, 512), ElementsAre(492, 1, 20, 0));
}

TEST(Scheduler, TheRatioFallsWhileAllIsWellAndRisesAfterARetraction) {
  NewTokenRatio ratio(1.0);
  const double start = ratio.value();
  for (int i = 0; i < 10'000; ++i) ratio.step();
  EXPECT_NEAR(ratio.value(), start * 0.14, 1e-9);
  ratio.retracted(500, 1000, 10);
  EXPECT_NEAR(ratio.value(), 700.0 / 1001.0, 1e-9);
  ratio.retracted(0, 1000, 10);  // young sequences say nothing of how long they will be
  EXPECT_NEAR(ratio.value(), 700.0 / 1001.0, 1e-9);
  ratio.retracted(5000, 1000, 10);
  EXPECT_EQ(ratio.value(), 1.0);
}

TEST(Scheduler, TheVictimIsBackgroundThenUnimportantThenCheapThenLate) {
  EXPECT_EQ(retraction_victim(std::vector<RunningView>{{1, 5}, {2, 3}, {3, 9}}), 1);
  EXPECT_EQ(retraction_victim(std::vector<RunningView>{{1, 3}, {2, 3}}), 1);
  EXPECT_EQ(retraction_victim(std::vector<RunningView>{{1, 3, 1}, {2, 30, 0}}), 1);
  EXPECT_EQ(retraction_victim(std::vector<RunningView>{{1, 3, 0}, {2, 30, 7, true}}), 1);
}

}  // namespace
}  // namespace espalier::scheduler_test
