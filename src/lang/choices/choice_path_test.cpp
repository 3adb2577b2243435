// Paths of choices: the same choice as scoring all of them finds, or none.
#include "lang/choices/choice_path.h"

#include <gtest/gtest.h>

#include <random>

#include "lang/choices/choices.h"
#include "testing/data.h"

namespace espalier::lang {
namespace {

ChoiceTokens behind(const std::vector<TokenId>& prompt, const std::vector<TokenId>& own) {
  ChoiceTokens tokens{prompt, prompt.size()};
  tokens.ids.insert(tokens.ids.end(), own.begin(), own.end());
  return tokens;
}

TEST(ChoicePath, LooksOnlyWhereChoicesPart) {
  const std::vector<TokenId> prompt{7, 8};
  auto path = ChoicePath::make({behind(prompt, {1, 2, 3, 9}), behind(prompt, {1, 2, 4}), behind(prompt, {5})});
  ASSERT_TRUE(path && !path->found());
  EXPECT_EQ(path->before(), prompt);
  EXPECT_EQ(path->next(), (std::vector<TokenId>{1, 5}));
  ASSERT_TRUE(path->take(std::vector<double>{-1, -2}));
  EXPECT_EQ(path->before(), (std::vector<TokenId>{7, 8, 1, 2}));
  EXPECT_EQ(path->next(), (std::vector<TokenId>{3, 4}));
  ASSERT_TRUE(path->take(std::vector<double>{-2, -1}));
  ASSERT_TRUE(path->found());
  EXPECT_EQ(path->choice(), 1u);
}

TEST(ChoicePath, IsNoneWhereScoresAreNeeded) {
  const std::vector<TokenId> prompt{7, 8};
  EXPECT_FALSE(ChoicePath::make({behind(prompt, {1, 2}), behind(prompt, {3}), behind(prompt, {1})}))
      << "one begins another";
  ChoiceTokens healed = behind(prompt, {5});
  healed.scored = 1;
  EXPECT_FALSE(ChoicePath::make({behind(prompt, {1}), healed})) << "they begin at different places";
  auto path = ChoicePath::make({behind(prompt, {1}), behind(prompt, {2}), behind(prompt, {3})});
  EXPECT_FALSE(path->take(std::vector<double>{-1, -2, -1})) << "two are the likeliest";
  EXPECT_TRUE(ChoicePath::make({behind(prompt, {4, 5}), behind(prompt, {4, 5})})->found()) << "the same twice";
}

// A model of few tokens whose log-probabilities are whole numbers, so that some are equal.
double logprob(std::span<const TokenId> before, TokenId token, unsigned seed) {
  std::size_t hash = seed;
  for (const TokenId id : before) hash = hash * 31 + static_cast<std::size_t>(id) + 1;
  return -1.0 - static_cast<double>(std::hash<std::string>{}(std::to_string(hash) + "/" + std::to_string(token)) % 40);
}

TEST(ChoicePath, FindsWhatScoringFinds) {
  const auto seed = static_cast<unsigned>(espalier::testing::seed());
  std::mt19937 random(seed);
  const auto draw = [&](int below) { return std::uniform_int_distribution<int>(0, below - 1)(random); };
  int found = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    std::vector<ChoiceTokens> choices;
    for (int i = 1 + draw(6); i > 0; --i) {
      std::vector<TokenId> own;
      for (int k = 1 + draw(4); k > 0; --k) own.push_back(draw(3));
      choices.push_back(behind({9, 9}, own));
    }
    std::vector<ScoredChoice> scored(choices.size());
    for (std::size_t i = 0; i < choices.size(); ++i)
      for (std::size_t at = choices[i].scored; at < choices[i].ids.size(); ++at)
        scored[i].logprobs.push_back(logprob(std::span(choices[i].ids).first(at), choices[i].ids[at], seed));
    auto path = ChoicePath::make(choices);
    bool goes_on = path.has_value();
    while (goes_on && !path->found()) {
      std::vector<double> seen;
      for (const TokenId token : path->next()) seen.push_back(logprob(path->before(), token, seed));
      goes_on = path->take(seen);
    }
    if (!goes_on) continue;
    ++found;
    ASSERT_EQ(path->choice(), decide(ChoicesRule::greedy_token_selection, scored).choice) << "turn " << turn;
  }
  EXPECT_GT(found, 500);
}

}  // namespace
}  // namespace espalier::lang
