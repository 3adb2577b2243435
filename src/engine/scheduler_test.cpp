#include "engine/scheduler.h"

#include <gmock/gmock.h>

namespace espalier {
namespace {

using ::testing::ElementsAre;

TEST(Scheduler, LongestPrefixGoesFirstAndTiesGoByArrival) {
  const std::vector<WaitingView> waiting = {{1, 0, 0}, {2, 100, 0}, {3, 40, 0}, {4, 100, 0}};
  EXPECT_THAT(admission_order(SchedulePolicy::lpm, waiting), ElementsAre(1, 3, 2, 0));
  EXPECT_THAT(admission_order(SchedulePolicy::fcfs, waiting), ElementsAre(0, 1, 2, 3));
}

TEST(Scheduler, ARequestThatWasPassedOverTooOftenGoesFirst) {
  const std::vector<WaitingView> waiting = {{1, 0, kAgeingBound}, {2, 100, 0}};
  EXPECT_THAT(admission_order(SchedulePolicy::lpm, waiting), ElementsAre(0, 1));
}

TEST(Scheduler, DecodingSequencesAreNeverHeldUpByPrompts) {
  const std::vector<int> to_compute = {700, 1, 1, 300, 1};
  EXPECT_THAT(running_chunks(to_compute, 512), ElementsAre(512, 1, 1, 0, 1));
  EXPECT_THAT(running_chunks(to_compute, 800), ElementsAre(700, 1, 1, 100, 1));
}

TEST(Scheduler, TheRatioFallsWhileAllIsWellAndRisesAfterARetraction) {
  NewTokenRatio ratio(1.0);
  const double start = ratio.value();
  for (int i = 0; i < 10'000; ++i) ratio.step();
  EXPECT_NEAR(ratio.value(), start * 0.14, 1e-9);
  ratio.retracted(500, 1000, 10);
  EXPECT_NEAR(ratio.value(), 700.0 / 1001.0, 1e-9);
  ratio.retracted(5000, 1000, 10);
  EXPECT_EQ(ratio.value(), 1.0);
}

TEST(Scheduler, TheVictimHasLeastOutputThenLongestPromptThenCameLast) {
  EXPECT_EQ(retraction_victim(std::vector<RunningView>{{1, 5, 10}, {2, 3, 10}, {3, 9, 10}}), 1);
  EXPECT_EQ(retraction_victim(std::vector<RunningView>{{1, 3, 10}, {2, 3, 20}, {3, 3, 15}}), 1);
  EXPECT_EQ(retraction_victim(std::vector<RunningView>{{1, 3, 10}, {2, 3, 10}}), 1);
}

}  // namespace
}  // namespace espalier
