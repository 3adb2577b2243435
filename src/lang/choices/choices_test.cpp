#include "lang/choices/choices.h"

#include <gtest/gtest.h>

namespace espalier::lang {
namespace {

ChoiceScore scored(std::string text, std::initializer_list<double> values, std::initializer_list<double> alone = {}) {
  ChoiceScore score;
  score.text = std::move(text);
  for (const double value : values) score.tokens.push_back({value, 1, "t"});
  for (const double value : alone) score.unconditional.push_back({value, 1, "t"});
  return score;
}

std::size_t taken(const std::shared_ptr<const ChoicesMethod>& method, const std::vector<ChoiceScore>& choices) {
  auto output = decided(*method, choices);
  EXPECT_TRUE(output.ok());
  return output.ok() ? output->choice : 99;
}

SelectCall call_for(std::vector<std::string> choices, double temperature = 0) {
  SelectCall call;
  call.choices = std::move(choices);
  call.temperature = temperature;
  return call;
}

TEST(CheckSelect, ACallWithoutAMethodGetsTheUsualOne) {
  SelectCall call = call_for({"a", "b"});
  call.method = nullptr;
  ASSERT_TRUE(check_select(call).ok());
  EXPECT_EQ(call.method, token_length_normalized());
  call.method = greedy_token_selection();
  ASSERT_TRUE(check_select(call).ok());
  EXPECT_EQ(call.method, greedy_token_selection());
}

TEST(CheckSelect, CallsThatNoBackEndCanAnswerAreRefused) {
  SelectCall nothing = call_for({}), empty = call_for({"a", ""}), drawn = call_for({"a"}, 0.7);
  EXPECT_EQ(check_select(nothing).error().field, "choices");
  EXPECT_EQ(check_select(empty).error().field, "choices");
  EXPECT_EQ(check_select(drawn).error().field, "temperature");
}

TEST(Decided, TheLargestMeanWinsAndTheFirstOfEqualOnes) {
  EXPECT_EQ(taken(token_length_normalized(), {scored("a", {-3, -1}), scored("b", {-1.5}), scored("c", {-1.5})}), 1u);
}

TEST(Decided, GreedyGoesTokenByTokenAndPadsWithTheMean) {
  // The means would take the second; its first token is less likely.
  EXPECT_EQ(taken(greedy_token_selection(), {scored("a", {-1, -9}), scored("b", {-2, -2})}), 0u);
  // Equal at first; the one that is over stands with its mean, -1, against -3.
  EXPECT_EQ(taken(greedy_token_selection(), {scored("a", {-1, -3}), scored("b", {-1})}), 1u);
}

TEST(Decided, TheUnconditionalMethodTakesWhatGainsMost) {
  const auto likely_anyway = scored("a", {-1, -1}, {0, -1}), gains = scored("b", {-2, -2}, {0, -6});
  EXPECT_EQ(taken(unconditional_likelihood_normalized(), {likely_anyway, gains}), 1u);
  EXPECT_EQ(taken(token_length_normalized(), {likely_anyway, gains}), 0u);
}

TEST(Decided, TellsWhatItSaw) {
  const auto output = decided(*unconditional_likelihood_normalized(), {scored("a", {-1, -3}, {0, -1})});
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->meta["normalized_prompt_logprobs"], Json::parse("[-2.0]"));
  EXPECT_EQ(output->meta["input_token_logprobs"], Json::parse(R"([[[-1.0,1,"t"],[-3.0,1,"t"]]])"));
  EXPECT_EQ(output->meta["unconditional_token_logprobs"], Json::parse(R"([[[0.0,1,"t"],[-1.0,1,"t"]]])"));
  EXPECT_EQ(output->meta["normalized_unconditional_prompt_logprobs"], Json::parse("[-1.5]"));
}

TEST(Decided, AMethodOfOnesOwnDecidesAndIsChecked) {
  struct Own final : ChoicesMethod {
    explicit Own(std::size_t c) : choice(c) {}
    std::string_view name() const override { return "own"; }
    Result<ChoiceDecision> decide(const std::vector<ChoiceScore>&) const override {
      ChoiceDecision decision{choice, Json::object()};
      decision.meta["why"] = "because";
      return decision;
    }
    std::size_t choice;
  };
  const auto output = decided(Own(1), {scored("a", {-1}), scored("b", {-2})});
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->choice, 1u);
  EXPECT_EQ(output->meta["why"], "because");
  EXPECT_EQ(decided(Own(2), {scored("a", {-1}), scored("b", {-2})}).error().kind, Error::Kind::internal);
}

TEST(Decided, AnUnknownNameIsAnErrorThatNamesTheThree) {
  EXPECT_TRUE(choices_method_named("greedy_token_selection").ok());
  const auto unknown = choices_method_named("best");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("token_length_normalized"), std::string::npos);
}

}  // namespace
}  // namespace espalier::lang
