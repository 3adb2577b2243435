#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/data.h"

namespace espalier {
namespace {

struct Outcome {
  std::string text;
  std::optional<int> matched;
  bool operator==(const Outcome&) const = default;
};

// The rule of the header, without an automaton: the match that ends first, the longest of those, the first of equals.
Outcome by_search(const std::string& text, const std::vector<std::string>& stops, bool keep) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < stops.size(); ++i)
      if (text.substr(0, end).ends_with(stops[i]) && (!best || stops[i].size() > stops[*best].size())) best = i;
    if (best) return {text.substr(0, keep ? end : end - stops[*best].size()), static_cast<int>(*best)};
  }
  return {text, std::nullopt};
}

Outcome in_pieces(const std::string& text, const std::vector<std::string>& stops, bool keep, std::mt19937_64& random) {
  StopMatcher matcher(*StopStrings::make(stops), keep);
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = random() % 5;
    all += matcher.feed(std::string_view(text).substr(at, size));
    at += size;
  }
  return {all + matcher.finish(), matcher.matched()};
}

std::string random_text(std::mt19937_64& random, std::size_t most) {
  std::string text(random() % (most + 1), 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 3);
  return text;
}

TEST(StopMatcher, AnyCutOfAnyTextGivesWhatAPlainSearchFinds) {
  std::mt19937_64 random(testing::seed());
  for (int n = 0; n < 20'000; ++n) {
    std::vector<std::string> stops(1 + random() % 6);
    for (std::string& stop : stops) stop = "a" + random_text(random, 5);
    if (n % 2 == 0) stops.push_back(random_text(random, 3) + "c");
    const std::string text = random_text(random, 30);
    const bool keep = n % 3 == 0;
    ASSERT_EQ(in_pieces(text, stops, keep, random), by_search(text, stops, keep)) << text;
  }
}

TEST(StopMatcher, OnlyWhatCouldBeginAStopStringIsHeldBack) {
  StopMatcher matcher(*StopStrings::make({"<|end|>", "\n\n"}));
  EXPECT_EQ(matcher.feed("Hello <"), "Hello ");
  EXPECT_EQ(matcher.feed("b>"), "<b>");
  EXPECT_EQ(matcher.feed("one\n"), "one");
  EXPECT_EQ(matcher.feed("two<|en"), "\ntwo");
  EXPECT_EQ(matcher.feed("d|>rest"), "");
  EXPECT_EQ(matcher.matched(), 0);
  EXPECT_EQ(matcher.feed("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, TheStopStringIsKeptWhenAskedFor) {
  StopMatcher matcher(*StopStrings::make({"END"}), true);
  EXPECT_EQ(matcher.feed("the EN"), "the ");
  EXPECT_EQ(matcher.feed("D."), "END");
  EXPECT_EQ(matcher.matched(), 0);
}

TEST(StopMatcher, WithoutStopStringsEverythingPasses) {
  StopMatcher matcher(*StopStrings::make({}));
  EXPECT_EQ(matcher.feed("anything"), "anything");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, ALongTextAgainstStopStringsThatNearlyMatchIsLinear) {
  StopMatcher matcher(*StopStrings::make({std::string(1000, 'a') + "b", std::string(999, 'a') + "c"}));
  const std::string text(2'000'000, 'a');
  const std::string shown = matcher.feed(text);
  EXPECT_EQ((shown + matcher.finish()).size(), text.size());
}

TEST(StopMatcher, EmptyAndTooManyStopStringsAreRefused) {
  EXPECT_EQ(StopStrings::make({"a", ""}).error().field, "stop");
  EXPECT_FALSE(StopStrings::make(std::vector<std::string>(257, "x")).ok());
  EXPECT_TRUE(StopStrings::make(std::vector<std::string>(256, "x")).ok());
  EXPECT_FALSE(StopStrings::make({std::string((1 << 20) + 1, 'x')}).ok());
}

}  // namespace
}  // namespace espalier
