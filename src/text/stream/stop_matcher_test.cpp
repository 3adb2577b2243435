#include "text/stream/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/data.h"
#include "text/stream/stop_matcher_cuts.h"

namespace espalier {
namespace {

using testing::StopOutcome;

// The rule of the header, without an automaton: the match that ends first, the longest of those, the first of equals.
StopOutcome by_search(const std::string& text, const std::vector<std::string>& stops, bool keep) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < stops.size(); ++i)
      if (text.substr(0, end).ends_with(stops[i]) && (!best || stops[i].size() > stops[*best].size())) best = i;
    if (best) return {text.substr(0, keep ? end : end - stops[*best].size()), static_cast<int>(*best)};
  }
  return {text, std::nullopt};
}

std::string random_text(std::mt19937_64& random, std::size_t most) {
  std::string text(random() % (most + 1), 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 3);
  return text;
}

struct RandomCase {
  std::vector<std::string> stops;
  std::string text;
};

RandomCase random_case(std::mt19937_64& random, int n) {
  RandomCase made;
  made.stops.resize(1 + random() % 6);
  for (std::string& stop : made.stops) stop = "a" + random_text(random, 5);
  if (n % 2 == 0) made.stops.push_back(random_text(random, 3) + "c");
  made.text = random_text(random, 30);
  return made;
}

TEST(StopMatcher, AnyCutOfAnyTextGivesWhatAPlainSearchFinds) {
  std::mt19937_64 random(testing::seed());
  for (int n = 0; n < 20'000; ++n) {
    const auto [stops, text] = random_case(random, n);
    const bool keep = n % 3 == 0;
    ASSERT_EQ(testing::in_pieces(text, {*StopStrings::make(stops), {}}, keep, random), by_search(text, stops, keep))
        << text;
  }
}

TEST(FirstStop, IsWhatTryingEveryEndOfTheTextFinds) {
  std::mt19937_64 random(testing::seed());
  for (int n = 0; n < 20'000; ++n) {
    auto [stops, text] = random_case(random, n);
    const StopOutcome wanted = by_search(text, stops, false);
    const auto found = first_stop(text, stops);
    ASSERT_EQ(found.has_value(), wanted.matched.has_value()) << text;
    if (!found) continue;
    ASSERT_EQ(found->index, static_cast<std::size_t>(*wanted.matched)) << text;
    ASSERT_EQ(text.substr(0, found->begin), wanted.text) << text;
  }
}

TEST(FirstStop, EmptyStringsAreNotLookedFor) {
  const auto found = first_stop("one END", std::vector<std::string>{"", "END"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->begin, 4u);
  EXPECT_EQ(found->index, 1u);
  EXPECT_FALSE(first_stop("one END", std::vector<std::string>{""}));
}

TEST(StopMatcher, TellsUpToTheFirstStopHoweverTheTextIsCut) {
  const std::vector<std::string> ends = {"\n\n", "END", "EN."};
  const std::string texts[] = {"one END two", "a\n\nb", "EN no E\n end", "EEN.x", "", "xE"};
  for (const std::string& text : texts) {
    const auto found = first_stop(text, ends);
    const std::string whole = found ? text.substr(0, found->begin) : text;
    for (std::size_t step = 1; step <= text.size(); ++step) {
      StopMatcher told({*StopStrings::make(ends), {}});
      std::string heard;
      for (std::size_t at = 0; at < text.size(); at += step) heard += told.feed(text.substr(at, step));
      EXPECT_TRUE(whole.starts_with(heard)) << text;
      EXPECT_LE(whole.size() - heard.size(), 2u) << "no more is held back than may be an end";
    }
  }
}

TEST(StopMatcher, OnlyWhatCouldBeginAStopStringIsHeldBack) {
  StopMatcher matcher({*StopStrings::make({"<|end|>", "\n\n"}), {}});
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
  StopMatcher matcher({*StopStrings::make({"END"}), {}}, true);
  EXPECT_EQ(matcher.feed("the EN"), "the ");
  EXPECT_EQ(matcher.feed("D."), "END");
  EXPECT_EQ(matcher.matched(), 0);
}

TEST(StopMatcher, WithoutStopStringsEverythingPasses) {
  StopMatcher matcher({*StopStrings::make({}), {}});
  EXPECT_EQ(matcher.feed("anything"), "anything");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, ALongTextAgainstStopStringsThatNearlyMatchIsLinear) {
  StopMatcher matcher({*StopStrings::make({std::string(1000, 'a') + "b", std::string(999, 'a') + "c"}), {}});
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
