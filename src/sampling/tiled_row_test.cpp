#include "sampling/tiled_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "sampling/sampler.h"
#include "testing/data.h"

namespace espalier {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

// The token by blocks that come in any order, none of which is kept.
Result<Pick> pick_by_blocks(std::vector<float>& logits, const SamplingParams& params, double uniform,
                            std::mt19937_64& random) {
  TiledRow row;
  row.begin(logits.size(), params);
  std::vector<std::size_t> order((logits.size() + sampling::block_size - 1) / sampling::block_size);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), random);
  const auto block = [&](std::size_t first) {
    return std::span(logits).subspan(first, std::min<std::size_t>(sampling::block_size, logits.size() - first));
  };
  for (const std::size_t b : order) row.read(b * sampling::block_size, block(b * sampling::block_size));
  return row.pick(uniform,
                  [&](std::size_t first, std::span<float> out) { std::ranges::copy(block(first), out.begin()); });
}

std::vector<float> random_row(std::mt19937_64& random, std::size_t size) {
  std::normal_distribution<float> normal(0, static_cast<float>(1 + random() % 8));
  std::vector<float> logits(size);
  const bool coarse = random() % 2 == 0;  // many equal logits
  for (float& x : logits) x = random() % 40 == 0 ? -inf : coarse ? std::round(normal(random)) : normal(random);
  return logits;
}

void expect_same(std::vector<float> logits, const SamplingParams& params, std::mt19937_64& random) {
  const double uniform = std::uniform_real_distribution<double>(0, 1)(random);
  ASSERT_TRUE(TiledRow::suits(params, logits.size()));
  const auto want = Sampler().pick({.logits = logits, .params = &params, .uniform = uniform});
  const auto got = pick_by_blocks(logits, params, uniform, random);
  ASSERT_EQ(got.ok(), want.ok());
  if (!want.ok()) {
    EXPECT_EQ(got.error().code, want.error().code);
    return;
  }
  EXPECT_EQ(got->token, want->token);
  EXPECT_EQ(got->probability, want->probability);
}

TEST(TiledRow, PicksWhatTheSamplerPicksFromTheWholeRow) {
  std::mt19937_64 random(testing::seed());
  for (const std::size_t size : {1u, 5u, 64u, 1000u, 1024u, 1025u, 1089u, 4096u, 49152u, 128256u}) {
    for (int round = 0; round < 12; ++round) {
      SamplingParams params;
      params.temperature = round % 3 == 0 ? 0 : 0.2 + static_cast<double>(random() % 20) / 10;
      expect_same(random_row(random, size), params, random);
    }
  }
}

TEST(TiledRow, RefusesWhatTheSamplerRefuses) {
  std::mt19937_64 random(testing::seed());
  for (const double temperature : {0.0, 1.0}) {
    SamplingParams params;
    params.temperature = temperature;
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), inf}) {
      std::vector<float> logits = random_row(random, 5000);
      logits[random() % logits.size()] = bad;
      expect_same(logits, params, random);
    }
    expect_same(std::vector<float>(3000, -inf), params, random);
  }
}

TEST(TiledRow, SuitsWhereNothingButTheRowDecides) {
  const auto suits = [](auto change) {
    SamplingParams params;
    change(params);
    return TiledRow::suits(params, 1000);
  };
  EXPECT_TRUE(suits([](SamplingParams&) {}));
  EXPECT_TRUE(suits([](SamplingParams& p) { p.top_k = 1; }));
  EXPECT_TRUE(suits([](SamplingParams& p) { p.top_k = 1000; }));
  EXPECT_TRUE(suits([](SamplingParams& p) { p.temperature = 0, p.top_p = 0.5; }));
  EXPECT_FALSE(suits([](SamplingParams& p) { p.top_k = 999; }));
  EXPECT_FALSE(suits([](SamplingParams& p) { p.top_p = 0.9; }));
  EXPECT_FALSE(suits([](SamplingParams& p) { p.min_p = 0.1; }));
  EXPECT_FALSE(suits([](SamplingParams& p) { p.temperature = 0, p.repetition_penalty = 1.1; }));
  EXPECT_FALSE(suits([](SamplingParams& p) { p.temperature = 0, p.logit_bias = {{3, 1.0f}}; }));
}

}  // namespace
}  // namespace espalier
