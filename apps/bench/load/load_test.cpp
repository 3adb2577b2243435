#include <gtest/gtest.h>

#include <cmath>

#include "bench/load/arrivals.h"
#include "bench/load/random.h"
#include "bench/load/statistics.h"
#include "testing/data.h"

namespace espalier::bench {
namespace {

TEST(Statistics, PercentilesInterpolateAsNumpyDoes) {
  const std::vector<double> x = {10, 1, 4, 7};  // numpy.percentile([1, 4, 7, 10], p)
  const Summary s = summarise(x);
  EXPECT_EQ(s.count, 4u);
  EXPECT_DOUBLE_EQ(s.mean, 5.5);
  EXPECT_DOUBLE_EQ(s.median, 5.5);
  EXPECT_DOUBLE_EQ(s.p90, 9.1);
  EXPECT_DOUBLE_EQ(s.p95, 9.55);
  EXPECT_DOUBLE_EQ(s.p99, 9.91);
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(11.25));
  EXPECT_DOUBLE_EQ(s.least, 1);
  EXPECT_DOUBLE_EQ(s.most, 10);
}

TEST(Statistics, OneValueIsEveryPercentileAndNoneGivesZeros) {
  const std::vector<double> one = {3};
  const Summary s = summarise(one);
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.p99, 3);
  EXPECT_EQ(s.deviation, 0);
  EXPECT_EQ(summarise({}).count, 0u);
  EXPECT_EQ(summarise({}).p99, 0);
  EXPECT_EQ(percentile({}, 50), 0);
}

TEST(Random, TheSeedDecidesEveryBit) {
  Random random(42);
  EXPECT_EQ(random.next(), 0x15780b2e0c2ec716u);  // computed apart, from the published definition
  Random again(42), other(43);
  EXPECT_EQ(again.next(), 0x15780b2e0c2ec716u);
  EXPECT_NE(other.next(), 0x15780b2e0c2ec716u);
  EXPECT_NE(derived_seed(1, 2), derived_seed(1, 3));
  EXPECT_NE(derived_seed(1, 2), derived_seed(2, 2));
}

TEST(Random, DrawsStayInTheirRangeAndHaveTheirMoments) {
  Random random(testing::seed());
  const int n = 200'000;
  double uniform = 0, exponential = 0, normal = 0, squares = 0, gamma = 0, small_gamma = 0;
  std::vector<int> seen(7);
  for (int i = 0; i < n; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    uniform += u;
    exponential += random.exponential();
    const double z = random.normal();
    normal += z;
    squares += z * z;
    gamma += random.gamma(4);
    small_gamma += random.gamma(0.5);
    const auto b = random.between(-3, 3);
    ASSERT_GE(b, -3);
    ASSERT_LE(b, 3);
    ++seen[static_cast<std::size_t>(b + 3)];
  }
  EXPECT_NEAR(uniform / n, 0.5, 0.01);
  EXPECT_NEAR(exponential / n, 1, 0.02);
  EXPECT_NEAR(normal / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.03);
  EXPECT_NEAR(gamma / n, 4, 0.04);
  EXPECT_NEAR(small_gamma / n, 0.5, 0.02);
  for (const int count : seen) EXPECT_NEAR(count, n / 7.0, n * 0.01);
  EXPECT_EQ(random.below(0), 0u);
  EXPECT_EQ(random.between(5, 5), 5);
  EXPECT_EQ(random.between(9, 2), 9);
  const auto whole = random.between(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  static_cast<void>(whole);  // no overflow on the way is what is asked here
}

TEST(Arrivals, PoissonHasItsRateAndItsSeed) {
  const ArrivalPlan plan{.rate = 8, .burstiness = 1, .seed = 5};
  const auto times = arrival_times(20'000, plan);
  EXPECT_EQ(times.front(), 0);
  EXPECT_NEAR(times.back(), 20'000 / 8.0, 100);
  for (std::size_t i = 1; i < times.size(); ++i) ASSERT_GE(times[i], times[i - 1]);
  EXPECT_EQ(times, arrival_times(20'000, plan));
  EXPECT_NE(times, arrival_times(20'000, {.rate = 8, .burstiness = 1, .seed = 6}));
  const auto fewer = arrival_times(10, plan);
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), times.begin()));
}

TEST(Arrivals, BurstinessChangesTheSpreadOfGapsNotTheRate) {
  auto gaps = [](double burstiness) {
    const auto times = arrival_times(20'000, {.rate = 2, .burstiness = burstiness, .seed = 9});
    std::vector<double> between;
    for (std::size_t i = 1; i < times.size(); ++i) between.push_back(times[i] - times[i - 1]);
    return summarise(between);
  };
  for (const double shape : {0.25, 1.0, 4.0}) {
    EXPECT_NEAR(gaps(shape).mean, 0.5, 0.05) << shape;
    EXPECT_NEAR(gaps(shape).deviation / gaps(shape).mean, 1 / std::sqrt(shape), 0.15) << shape;
  }
}

TEST(Arrivals, ARampChangesTheRateFromTheFirstToTheLast) {
  for (const bool exponential : {false, true}) {
    const auto times = arrival_times(40'001, {.burstiness = 1, .seed = 3, .ramp = Ramp{2, 32, exponential}});
    const auto gap = [&](std::size_t from, std::size_t to) {
      return (times[to] - times[from]) / static_cast<double>(to - from);
    };
    EXPECT_NEAR(1 / gap(0, 400), 2, 0.5) << exponential;
    EXPECT_NEAR(1 / gap(39'000, 40'000), 32, 4) << exponential;
    EXPECT_NEAR(1 / gap(19'500, 20'500), exponential ? 8 : 17, 2) << exponential;
  }
}

TEST(Arrivals, WithoutARateAllComeAtOnce) {
  EXPECT_EQ(arrival_times(3, {}), (std::vector<double>{0, 0, 0}));
  EXPECT_TRUE(arrival_times(0, {.rate = 1}).empty());
}

}  // namespace
}  // namespace espalier::bench
