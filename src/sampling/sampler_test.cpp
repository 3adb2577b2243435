#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "sampling/noise.h"
#include "testing/data.h"

namespace espalier {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// The plain way: softmax in double, a full sort, each filter on the unfiltered distribution.
struct Plain {
  std::vector<double> probabilities;
  bool near_a_border = false;  // a filter's border lies within rounding of a token: either answer is right
};

Plain plain_distribution(const std::vector<float>& logits, const SamplingParams& p,
                         std::span<const std::uint32_t> mask) {
  const int n = static_cast<int>(logits.size());
  double max = -inf;
  for (int i = 0; i < n; ++i) {
    if (sampling::allowed(mask, i)) max = std::max<double>(max, logits[i]);
  }
  std::vector<double> q(n, 0.0);
  for (int i = 0; i < n; ++i) {
    if (sampling::allowed(mask, i)) q[i] = std::exp((logits[i] - max) / p.temperature);
  }
  double total = std::accumulate(q.begin(), q.end(), 0.0);
  std::vector<int> order;
  for (int i = 0; i < n; ++i) {
    if (sampling::allowed(mask, i) && logits[i] > -inf) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  Plain result;
  result.probabilities.assign(n, 0.0);
  double sum = 0;
  double kept = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    int i = order[rank];
    if (p.top_k > 0 && rank >= static_cast<std::size_t>(p.top_k)) break;
    if (p.top_p < 1) result.near_a_border |= std::abs(sum / total - p.top_p) < 2e-6;
    if (p.top_p < 1 && sum >= p.top_p * total) break;
    if (p.min_p > 0) result.near_a_border |= std::abs(q[i] - p.min_p) < 1e-6;
    if (q[i] < p.min_p) break;
    sum += q[i];
    kept += q[i];
    result.probabilities[i] = q[i];
  }
  for (double& x : result.probabilities) x /= kept;
  return result;
}

SamplingParams random_params(std::mt19937_64& random) {
  auto unit = [&] { return static_cast<double>(random() % 1000 + 1) / 1001; };
  SamplingParams p;
  p.temperature = random() % 2 ? 1 : 0.2 + 2 * unit();
  if (random() % 2) p.top_k = 2 + static_cast<int>(random() % (random() % 2 ? 50 : 3000));
  if (random() % 2) p.top_p = random() % 4 ? unit() : 1 - 1e-4;
  if (random() % 2) p.min_p = random() % 4 ? unit() * 0.3 : 1;
  return p;
}

TEST(Sampler, TheDistributionIsThatOfAFullSort) {
  std::mt19937_64 random(testing::seed());
  Sampler sampler;
  int compared = 0;
  for (int round = 0; round < 600; ++round) {
    auto size = static_cast<int>(1 + random() % (round % 10 == 0 ? 20000 : 900));
    std::normal_distribution<float> normal(0, static_cast<float>(random() % 8) * 0.5f + 0.1f);
    std::vector<float> logits(size);
    bool ties = random() % 2 == 0;
    for (float& x : logits) x = ties ? std::round(normal(random) * 2) / 2 : random() % 40 == 0 ? -inf : normal(random);
    std::vector<std::uint32_t> mask;
    if (random() % 2) {
      mask.resize((size + 31) / 32);
      for (auto& w : mask) w = random() % 3 == 0 ? 0 : random() % 2 ? ~0u : static_cast<std::uint32_t>(random());
    }
    SamplingParams p = random_params(random);
    PickInput in{logits, &p, nullptr, mask, {}, 0};
    auto got = sampler.distribution(in);
    bool nothing = true;
    for (int i = 0; i < size; ++i) nothing = nothing && !(sampling::allowed(mask, i) && logits[i] > -inf);
    ASSERT_EQ(got.ok(), !nothing);
    if (nothing) continue;
    Plain expected = plain_distribution(logits, p, mask);
    if (expected.near_a_border) continue;
    ++compared;
    for (int i = 0; i < size; ++i) {
      ASSERT_NEAR((*got)[i], expected.probabilities[i], 1e-6) << "token " << i << " round " << round;
      // Weights below the smallest normal float are 0.
      if ((*got)[i] > 0)
        ASSERT_GT(expected.probabilities[i], 0) << "token " << i << " round " << round;
      else
        ASSERT_LT(expected.probabilities[i], 2e-38) << "token " << i << " round " << round;
    }
  }
  EXPECT_GT(compared, 300);
}

TEST(Sampler, ThePickIsTheInverseOfTheCumulativeDistribution) {
  std::mt19937_64 random(testing::seed());
  Sampler sampler;
  for (int round = 0; round < 400; ++round) {
    auto size = static_cast<int>(1 + random() % 5000);
    std::normal_distribution<float> normal(0, 2);
    std::vector<float> logits(size);
    for (float& x : logits) x = normal(random);
    SamplingParams p = random_params(random);
    PickInput in{logits, &p, nullptr, {}, {}, Noise(testing::seed()).uniform(round)};
    if (round % 20 == 0) in.uniform = 0;
    if (round % 20 == 1) in.uniform = 0x1.fffffffffffffp-1;
    auto distribution = sampler.distribution(in);
    auto pick = sampler.pick(in);
    ASSERT_TRUE(pick.ok());
    double before = std::accumulate(distribution->begin(), distribution->begin() + pick->token, 0.0);
    double probability = (*distribution)[pick->token];
    ASSERT_GT(probability, 0);
    ASSERT_NEAR(pick->probability, probability, 1e-12);
    // A block's own sum is rounded in single precision within groups of four.
    ASSERT_LE(before, in.uniform + 1e-6);
    ASSERT_GE(before + probability, in.uniform - 1e-6);
  }
}

TEST(Sampler, GreedyTakesTheLowestOfEqualTokensAmongTheAllowed) {
  std::vector<float> logits(300, 1.0f);
  logits[70] = logits[200] = logits[290] = 5.0f;
  SamplingParams p;
  p.temperature = 0;
  Sampler sampler;
  EXPECT_EQ(sampler.pick({logits, &p, nullptr, {}, {}, 0.9})->token, 70);
  std::vector<std::uint32_t> mask(10, ~0u);
  mask[70 / 32] &= ~(1u << (70 % 32));
  EXPECT_EQ(sampler.pick({logits, &p, nullptr, mask, {}, 0})->token, 200);
  const TokenId forbidden[] = {200};
  EXPECT_EQ(sampler.pick({logits, &p, nullptr, mask, forbidden, 0})->token, 290);
  EXPECT_EQ(logits[200], 5.0f);
  p.temperature = 1;
  p.top_k = 1;
  EXPECT_EQ(sampler.pick({logits, &p, nullptr, {}, {}, 0.999})->token, 70);
}

TEST(Sampler, AMaskedTokenIsNeverDrawnWhateverItsLogit) {
  std::vector<float> logits(1000, 0.0f);
  for (int i = 0; i < 1000; i += 2) logits[i] = 80;
  std::vector<std::uint32_t> mask(32, 0xaaaaaaaau);
  Sampler sampler;
  for (double top_p : {1.0, 0.5}) {
    SamplingParams p;
    p.top_p = top_p;
    for (int i = 0; i < 2000; ++i) {
      auto pick = sampler.pick({logits, &p, nullptr, mask, {}, Noise(3).uniform(i)});
      ASSERT_EQ(pick->token % 2, 1);
    }
  }
}

TEST(Sampler, AFaultyRowEndsOnlyItsRequest) {
  Sampler sampler;
  std::vector<float> good = {1, 2, 3};
  for (float bad : {std::nanf(""), inf}) {
    for (double temperature : {0.0, 1.0}) {
      for (double top_p : {1.0, 0.5}) {
        SamplingParams p;
        p.temperature = temperature;
        p.top_p = top_p;
        std::vector<float> logits = {1, bad, 3};
        auto pick = sampler.pick({logits, &p, nullptr, {}, {}, 0.5});
        ASSERT_FALSE(pick.ok());
        EXPECT_EQ(pick.error().code, "logits_not_finite");
        EXPECT_EQ(pick.error().http_status(), 500);
        EXPECT_TRUE(sampler.pick({good, &p, nullptr, {}, {}, 0.5}).ok());
      }
    }
  }
}

TEST(Sampler, NothingAllowedAndBrokenInputAreErrors) {
  Sampler sampler;
  std::vector<float> logits = {1, 2, 3};
  std::vector<float> none = {-inf, -inf};
  SamplingParams p;
  std::vector<std::uint32_t> nothing = {0xfffffff8u};
  auto code = [&](PickInput in) { return sampler.pick(in).error().code; };
  EXPECT_EQ(code({logits, &p, nullptr, nothing, {}, 0}), "no_token_allowed");
  EXPECT_EQ(code({none, &p, nullptr, {}, {}, 0}), "no_token_allowed");
  const TokenId all[] = {0, 1, 2};
  EXPECT_EQ(code({logits, &p, nullptr, {}, all, 0}), "no_token_allowed");
  EXPECT_EQ(code({std::span<float>(), &p, nullptr, {}, {}, 0}), "bad_sampling_input");
  EXPECT_EQ(code({logits, nullptr, nullptr, {}, {}, 0}), "bad_sampling_input");
  EXPECT_EQ(code({logits, &p, nullptr, {}, {}, 1.0}), "bad_sampling_input");
  std::vector<float> longer(33, 0.0f);
  EXPECT_EQ(code({longer, &p, nullptr, nothing, {}, 0}), "bad_sampling_input");
  p.presence_penalty = 1;
  EXPECT_EQ(code({logits, &p, nullptr, {}, {}, 0}), "bad_sampling_input");
}

TEST(Sampler, TheSameInputGivesTheSameTokenOnAnySamplerAndThread) {
  constexpr int rows = 64;
  constexpr int size = 6000;
  std::mt19937_64 random(testing::seed());
  std::normal_distribution<float> normal(0, 3);
  std::vector<std::vector<float>> logits(rows, std::vector<float>(size));
  std::vector<SamplingParams> params;
  TokenCounts counts;
  for (int i = 0; i < 300; ++i) counts.add_output(static_cast<TokenId>(random() % size));
  for (auto& row : logits) {
    for (float& x : row) x = normal(random);
    params.push_back(random_params(random));
    params.back().presence_penalty = random() % 2 ? 0.5 : 0;
  }
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  auto pick_all = [&](const std::vector<int>& order) {
    Sampler sampler;
    std::vector<std::pair<TokenId, double>> picks(rows);
    for (int i : order) {
      std::vector<float> own = logits[i];
      auto pick = sampler.pick({own, &params[i], &counts, {}, {}, Noise(1, 2).uniform(i)});
      picks[i] = {pick->token, pick->probability};
      if (!std::ranges::equal(own, logits[i], {}, bits, bits)) picks[i].first = -1;  // not restored
    }
    return picks;
  };
  std::vector<int> order(rows);
  std::iota(order.begin(), order.end(), 0);
  auto expected = pick_all(order);
  for (const auto& [token, probability] : expected) ASSERT_GE(token, 0);
  std::vector<std::vector<std::pair<TokenId, double>>> others(4);
  std::vector<std::thread> threads;
  for (auto& other : others) {
    std::shuffle(order.begin(), order.end(), random);
    threads.emplace_back([&other, &pick_all, order] { other = pick_all(order); });
  }
  for (auto& t : threads) t.join();
  for (const auto& other : others) EXPECT_EQ(other, expected);
}

}  // namespace
}  // namespace espalier
