// The choice of the largest scores against a sort of all of them.
#include "kernels/attention/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "testing/data.h"

namespace espalier {
namespace {

std::vector<std::int32_t> chosen(const std::vector<float>& scores, std::size_t k) {
  std::vector<std::int32_t> best(k, -1);
  top_k(scores, best);
  return best;
}

TEST(TopK, AgreesWithASortOfAllForAnySizeWithManyTies) {
  std::mt19937_64 rng(testing::seed());
  for (int round = 0; round < 2000; ++round) {
    std::vector<float> scores(1 + rng() % 300);
    for (float& s : scores) s = static_cast<float>(rng() % (1 + rng() % 100)) - 20.0f;
    std::vector<std::int32_t> sorted(scores.size());
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&](auto a, auto b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    sorted.resize(rng() % (scores.size() + 1));
    EXPECT_EQ(chosen(scores, sorted.size()), sorted);
  }
}

TEST(TopK, ChoosesWhatIsNoNumberLast) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kLowest = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(chosen({kNan, 1.0f, kNan, kLowest, 2.0f}, 4), (std::vector<std::int32_t>{4, 1, 3, 0}));
  EXPECT_EQ(chosen({kNan, kNan, 1.0f}, 1), (std::vector<std::int32_t>{2}));
  std::vector<float> many(100, kNan);
  many[70] = kLowest;
  EXPECT_EQ(chosen(many, 50)[0], 70);
  EXPECT_EQ(chosen(many, 50)[1], 0);
}

TEST(TopK, TakesZerosOfBothSignsForEqual) {
  EXPECT_EQ(chosen({-0.0f, 0.0f, -0.0f}, 2), (std::vector<std::int32_t>{0, 1}));
}

}  // namespace
}  // namespace espalier
