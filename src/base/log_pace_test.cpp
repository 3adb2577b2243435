#include "base/log_pace.h"

#include <gtest/gtest.h>

namespace espalier::log_pace_test {
namespace {

using namespace std::chrono_literals;

TEST(LogPace, LetsOneThroughAndTellsHowManyWereLeftOut) {
  LogPace pace(5s);
  const auto start = LogPace::Clock::now();
  EXPECT_EQ(pace.take(start), "");
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(pace.take(start + i * 1s), std::nullopt);
  EXPECT_EQ(pace.take(start + 5s), " (and 3 more like it)");
  EXPECT_EQ(pace.take(start + 9s), std::nullopt);
  EXPECT_EQ(pace.take(start + 10s), " (and 1 more like it)");
  EXPECT_EQ(pace.take(start + 20s), "");
}

}  // namespace
}  // namespace espalier::log_pace_test
