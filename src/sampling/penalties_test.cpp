#include "sampling/penalties.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "testing/data.h"

namespace espalier {
namespace {

TEST(TokenCounts, AgreesWithAMapUnderRandomOperations) {
  std::mt19937_64 random(testing::seed());
  TokenCounts counts;
  std::map<TokenId, std::pair<int, int>> model;
  for (int step = 0; step < 20000; ++step) {
    auto token = static_cast<TokenId>(random() % 20) - 3;
    switch (random() % 4) {
      case 0:
        if (step % 20 == 0) {
          counts.add_prompt(std::span(&token, 1));
          ++model[token].first;
        }
        break;
      case 1:
        counts.add_output(token);
        ++model[token].second;
        break;
      default:
        counts.undo_output(token);
        if (auto it = model.find(token); it != model.end() && it->second.second > 0) --it->second.second;
    }
    std::erase_if(model, [](const auto& e) { return e.second.first + e.second.second == 0; });
    ASSERT_EQ(counts.entries().size(), model.size());
    for (const auto& e : counts.entries()) ASSERT_EQ(model.at(e.token), std::pair(e.prompt, e.output));
    ASSERT_EQ(counts.output_count(token), model.contains(token) ? model[token].second : 0);
  }
}

TEST(PenalisedRow, AppliesInOrderAndRestoresEveryBit) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  std::vector<float> logits = {2.0f, -2.0f, 1.5f, 0.0f, -inf, inf, std::nanf("7"), -0.0f};
  const std::vector<float> before = logits;
  SamplingParams p;
  p.repetition_penalty = 2;
  p.frequency_penalty = 0.5;
  p.presence_penalty = 0.25;
  p.logit_bias = {{2, 4.0f}, {4, 50.0f}};
  TokenCounts counts;
  const TokenId prompt[] = {0, 1, 4, 5, 6, 99, -7};
  counts.add_prompt(prompt);
  for (TokenId t : {1, 1, 2, 99}) counts.add_output(t);
  const TokenId forbidden[] = {3, 3, 2, 99, -1};
  PenalisedRow::Saved saved;
  {
    PenalisedRow row(logits, p, &counts, std::span(forbidden, 0), saved);
    EXPECT_EQ(logits[0], 1.0f);                      // prompt only: repetition
    EXPECT_EQ(logits[1], -4.0f - 1.0f - 0.25f);      // twice in the output
    EXPECT_EQ(logits[2], 0.75f - 0.5f - 0.25f + 4);  // and biased
    EXPECT_EQ(logits[4], -inf);
    EXPECT_EQ(logits[5], inf);
    EXPECT_TRUE(std::isnan(logits[6]));
  }
  EXPECT_EQ(std::memcmp(logits.data(), before.data(), sizeof(float) * logits.size()), 0);
  {
    PenalisedRow row(logits, p, &counts, forbidden, saved);
    EXPECT_EQ(logits[3], -inf);
    EXPECT_EQ(logits[2], -inf);
  }
  EXPECT_EQ(std::memcmp(logits.data(), before.data(), sizeof(float) * logits.size()), 0);
}

TEST(PenalisedRow, NeverMakesAFiniteLogitInfinite) {
  std::vector<float> logits = {3e38f, -3e38f};
  SamplingParams p;
  p.repetition_penalty = 1e-30;
  TokenCounts counts;
  const TokenId prompt[] = {0, 1};
  counts.add_prompt(prompt);
  PenalisedRow::Saved saved;
  PenalisedRow row(logits, p, &counts, {}, saved);
  EXPECT_TRUE(std::isfinite(logits[0]));
  EXPECT_TRUE(std::isfinite(logits[1]));
}

}  // namespace
}  // namespace espalier
