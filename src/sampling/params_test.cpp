#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "espalier/sampling.h"

namespace espalier {
namespace {

constexpr int vocabulary = 1000;

std::string refused_field(const std::function<void(SamplingParams&)>& change) {
  SamplingParams p;
  change(p);
  auto checked = p.validate(vocabulary);
  if (checked.ok()) return "";
  EXPECT_EQ(checked.error().kind, Error::Kind::bad_request);
  EXPECT_NE(checked.error().message.find(checked.error().field), std::string::npos) << checked.error().message;
  return checked.error().field;
}

TEST(SamplingParams, DefaultsAreValidAndSample) {
  SamplingParams p;
  EXPECT_TRUE(p.validate(vocabulary).ok());
  EXPECT_FALSE(p.greedy());
  EXPECT_FALSE(p.penalises());
}

TEST(SamplingParams, TheEdgesOfEveryRangeAreAccepted) {
  auto accepts = [](auto change) { EXPECT_EQ(refused_field(change), ""); };
  accepts([](auto& p) { p.temperature = 0; });
  accepts([](auto& p) { p.temperature = 100; });
  accepts([](auto& p) { p.top_p = 1e-9; });
  accepts([](auto& p) { p.top_k = 0; });
  accepts([](auto& p) { p.top_k = 1 << 30; });
  accepts([](auto& p) { p.min_p = 1; });
  accepts([](auto& p) { p.repetition_penalty = 10; });
  accepts([](auto& p) { p.frequency_penalty = -2; });
  accepts([](auto& p) { p.presence_penalty = 2; });
  accepts([](auto& p) { p.logit_bias = {{0, -100.f}, {vocabulary - 1, 100.f}}; });
  accepts([](auto& p) { p.max_new_tokens = 0; });
  accepts([](auto& p) { p.n = 64; });
  accepts([](auto& p) { p.stop.assign(16, std::string(1024, 'x')); });
  accepts([](auto& p) { p.stop_token_ids = {0, 5'000'000}; });
}

TEST(SamplingParams, EveryRefusalNamesItsField) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  auto refuses = [](const char* field, auto change) { EXPECT_EQ(refused_field(change), field); };
  for (double bad : {-0.1, 100.1, nan, inf, -inf}) refuses("temperature", [&](auto& p) { p.temperature = bad; });
  for (double bad : {0.0, -1.0, 1.01, nan}) refuses("top_p", [&](auto& p) { p.top_p = bad; });
  refuses("top_k", [](auto& p) { p.top_k = -2; });
  for (double bad : {-0.1, 1.1, nan}) refuses("min_p", [&](auto& p) { p.min_p = bad; });
  for (double bad : {0.0, -1.0, 10.1, nan, inf}) {
    refuses("repetition_penalty", [&](auto& p) { p.repetition_penalty = bad; });
  }
  for (double bad : {-2.1, 2.1, nan}) {
    refuses("frequency_penalty", [&](auto& p) { p.frequency_penalty = bad; });
    refuses("presence_penalty", [&](auto& p) { p.presence_penalty = bad; });
  }
  refuses("logit_bias", [](auto& p) { p.logit_bias = {{vocabulary, 1.f}}; });
  refuses("logit_bias", [](auto& p) { p.logit_bias = {{-1, 1.f}}; });
  refuses("logit_bias", [](auto& p) { p.logit_bias = {{3, 100.5f}}; });
  refuses("logit_bias", [](auto& p) { p.logit_bias = {{3, std::nanf("")}}; });
  refuses("logit_bias", [](auto& p) { p.logit_bias = {{3, 1.f}, {4, 1.f}, {3, 2.f}}; });
  refuses("logit_bias", [](auto& p) { p.logit_bias.assign(4097, {1, 0.f}); });
  refuses("max_new_tokens", [](auto& p) { p.max_new_tokens = -1; });
  refuses("min_new_tokens", [](auto& p) { p.min_new_tokens = -1; });
  refuses("min_new_tokens", [](auto& p) {
    p.max_new_tokens = 4;
    p.min_new_tokens = 5;
  });
  refuses("n", [](auto& p) { p.n = 0; });
  refuses("n", [](auto& p) { p.n = 65; });
  refuses("stop", [](auto& p) { p.stop.assign(17, "x"); });
  refuses("stop", [](auto& p) { p.stop = {std::string(1025, 'x')}; });
  refuses("stop", [](auto& p) { p.stop = {""}; });
  refuses("stop_regex", [](auto& p) { p.stop_regex = {std::string(257, 'x')}; });
  refuses("stop_token_ids", [](auto& p) { p.stop_token_ids = {-1}; });
  refuses("stop_token_ids", [](auto& p) { p.stop_token_ids.assign(4097, 1); });
}

TEST(SamplingParams, ATinyTemperatureOrASingleCandidateIsGreedy) {
  SamplingParams p;
  p.temperature = 9e-7;
  EXPECT_TRUE(p.greedy());
  p.temperature = 1e-6;
  EXPECT_FALSE(p.greedy());
  p.top_k = 1;
  EXPECT_TRUE(p.greedy());
}

}  // namespace
}  // namespace espalier
