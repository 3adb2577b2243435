#include "sampling/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "testing/data.h"

namespace espalier {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

TEST(Logprobs, AgreeWithAPlainLogSoftmaxAndAFullSort) {
  std::mt19937_64 random(testing::seed());
  Logprobs logprobs;
  for (int size : {1, 5, 64, 999, 4096, 50257, 131072}) {
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> logits(size);
    for (float& x : logits) x = random() % 30 == 0 ? -inf : std::round(normal(random) * 64) / 64;  // with ties
    logits[size / 2] = 4;
    double max = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (float x : logits) total += std::exp(x - max);
    auto exact = [&](TokenId t) { return logits[t] - max - std::log(total); };
    ASSERT_TRUE(logprobs.read(logits).ok());
    std::vector<TokenId> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
    for (int count : {0, 1, 5, 20, 700, size - 1, size, size + 7}) {
      auto top = logprobs.top(count);
      ASSERT_EQ(static_cast<int>(top.size()), std::clamp(count, 0, size));
      for (std::size_t i = 0; i < top.size(); ++i) {
        ASSERT_EQ(top[i].token, order[i]) << "rank " << i << " of " << count << " in " << size;
        if (logits[order[i]] > -inf)
          ASSERT_NEAR(top[i].logprob, exact(order[i]), 1e-6);
        else
          ASSERT_EQ(top[i].logprob, -inf);
      }
    }
    double sum = 0;
    for (TokenId t = 0; t < size; ++t) sum += std::exp(logprobs.of(t));
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(Logprobs, IdsOutsideTheRowAreImpossible) {
  Logprobs logprobs;
  std::vector<float> logits = {0, 0};
  ASSERT_TRUE(logprobs.read(logits).ok());
  const TokenId asked[] = {1, -1, 2};
  auto got = logprobs.of(asked);
  EXPECT_NEAR(got[0].logprob, -std::log(2), 1e-7);
  EXPECT_EQ(got[1].logprob, -inf);
  EXPECT_EQ(got[2].logprob, -inf);
}

TEST(Logprobs, AFaultyRowIsAnError) {
  Logprobs logprobs;
  for (std::vector<float> logits : {std::vector<float>{1, std::nanf(""), 2}, {1, inf}, {-inf, -inf}, {}}) {
    auto read = logprobs.read(logits);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, "logits_not_finite");
  }
}

}  // namespace
}  // namespace espalier
