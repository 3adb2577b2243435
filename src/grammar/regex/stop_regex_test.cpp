// Patterns that end a text: against trying every part of it, however it is cut; what is held back; what is refused.
#include "grammar/regex/stop_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "grammar/regex/regex.h"
#include "grammar/regex/regex_model.h"
#include "testing/data.h"
#include "text/stream/stop_matcher_cuts.h"

namespace espalier::grammar {
namespace {

using ::testing::HasSubstr;
using testing::in_pieces;
using testing::StopOutcome;

std::shared_ptr<const StopPatterns> compiled(const std::vector<std::string>& patterns) {
  auto made = compile_stop_regex(patterns);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return made.ok() ? *made : nullptr;
}

// Characters of two, three and four bytes among them, so that bytes are not characters.
const std::vector<std::string> kCharacters{"a", "b", "c", "\n", "ä", "€", "𝄞"};

std::string random_text(std::mt19937_64& random, std::size_t most) {
  std::string text;
  for (std::size_t n = random() % (most + 1); n > 0; --n) text += kCharacters[random() % kCharacters.size()];
  return text;
}

std::string random_pattern(std::mt19937_64& random, int depth) {
  const auto inner = [&] { return random_pattern(random, depth - 1); };
  switch (random() % (depth > 0 ? 9 : 4)) {
    case 0:
      return kCharacters[random() % kCharacters.size()];
    case 1:
      return "[a-b]";
    case 2:
      return "[^c]";
    case 3:
      return ".";
    case 4:
      return "(?:" + inner() + "|" + inner() + ")";
    case 5:
      return "(?:" + inner() + ")*";
    case 6:
      return "(?:" + inner() + "){1,3}";
    case 7:
      return "(?:" + inner() + ")?";
    default:
      return inner() + inner();
  }
}

// The rule of stop_matcher.h, without an automaton: the first end of a match, from the earliest of its begins.
StopOutcome by_trying(const std::string& text, const std::vector<Regex>& patterns,
                      const std::vector<std::string>& strings, bool keep) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    if (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) continue;
    for (std::size_t begin = 0; begin < end; ++begin) {
      if ((static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) continue;
      const std::string part = text.substr(begin, end - begin);
      const std::string trimmed = text.substr(0, keep ? end : begin);
      for (std::size_t i = 0; i < strings.size(); ++i)
        if (strings[i] == part) return {trimmed, static_cast<int>(i)};
      for (std::size_t i = 0; i < patterns.size(); ++i)
        if (RegexModel(patterns[i]).whole(part)) return {trimmed, static_cast<int>(strings.size() + i)};
    }
  }
  return {text, std::nullopt};
}

TEST(StopRegex, AnyCutOfAnyTextGivesWhatTryingEveryPartFinds) {
  std::mt19937_64 random(testing::seed());
  int found = 0;
  for (int n = 0; n < 4'000; ++n) {
    std::vector<std::string> patterns;
    std::vector<Regex> regexes;
    while (patterns.size() < 1 + static_cast<std::size_t>(n % 3)) {
      const std::string pattern = random_pattern(random, 3);
      const Regex regex = *parse_regex(pattern);
      if (RegexModel(regex).whole("")) continue;  // refused
      patterns.push_back(pattern);
      regexes.push_back(regex);
    }
    std::vector<std::string> strings;
    if (n % 4 == 0) strings = {"a" + random_text(random, 2)};
    Stops stops{*StopStrings::make(strings), compiled(patterns)};
    ASSERT_NE(stops.patterns, nullptr);
    const std::string text = random_text(random, 12);
    const bool keep = n % 2 == 0;
    const StopOutcome wanted = by_trying(text, regexes, strings, keep);
    ASSERT_EQ(in_pieces(text, stops, keep, random), wanted) << ::testing::PrintToString(patterns) << " in " << text;
    found += wanted.matched ? 1 : 0;
  }
  EXPECT_GT(found, 1'000);
  EXPECT_LT(found, 3'900);
}

TEST(StopRegex, TheStartOfTheTextIsWhereNothingStandsBefore) {
  const Stops stops{nullptr, compiled({"^ab", "c(?:^x|y)"})};
  const auto told = [&](std::string_view text, bool at_start) {
    StopMatcher matcher(stops, false, at_start);
    const std::string before = matcher.feed(text);
    return StopOutcome{before + matcher.finish(), matcher.matched()};
  };
  EXPECT_EQ(told("abab", true), (StopOutcome{"", 0}));
  EXPECT_EQ(told("abab", false), (StopOutcome{"abab", std::nullopt}));
  EXPECT_EQ(told("xabcy", true), (StopOutcome{"xab", 1}));
}

TEST(StopRegex, OnlyWhatMayBelongToAMatchIsHeldBack) {
  StopMatcher matcher({nullptr, compiled({R"(</?(?:end|stop)\s*>)", R"(\n{3})"})});
  EXPECT_EQ(matcher.feed("one <e"), "one ");
  EXPECT_EQ(matcher.feed("lse>"), "<else>");
  EXPECT_EQ(matcher.feed("\n\n"), "");
  EXPECT_EQ(matcher.feed("x</stop  "), "\n\nx");
  EXPECT_EQ(matcher.feed(" > more"), "");
  EXPECT_EQ(matcher.matched(), 0);
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopRegex, OfALongMatchTheLastPartIsHeldBackAndTrimmedHoweverTheTextIsCut) {
  std::mt19937_64 random(testing::seed());
  const Stops stops{nullptr, compiled({"<[^>]*>"})};
  std::string inside;
  while (inside.size() < Stops::kMostHeld * 2) inside += random_text(random, 9);
  const std::string text = "before <" + inside + "> behind";
  const StopOutcome first = in_pieces(text, stops, false, random);
  EXPECT_EQ(first.matched, 0);
  EXPECT_TRUE(text.starts_with(first.text));
  const std::size_t trimmed = text.find('>') + 1 - first.text.size();
  EXPECT_GE(trimmed, Stops::kMostHeld);
  EXPECT_LE(trimmed, Stops::kMostHeld + 3);  // to the begin of a character
  for (int n = 0; n < 20; ++n) ASSERT_EQ(in_pieces(text, stops, false, random), first);
  StopMatcher whole(stops);
  EXPECT_EQ(whole.feed(text), first.text);
  EXPECT_EQ(in_pieces(text, stops, true, random).text, text.substr(0, text.find('>') + 1));
}

TEST(StopRegex, ClassesOfUnicodeWithCountsAreSmall) {
  const auto patterns = compiled({R"([\w ]{1,60}\.)", R"((?i)straße\d{1,30})"});
  ASSERT_NE(patterns, nullptr);
  EXPECT_LT(patterns->matches.size(), 300U);
  StopMatcher matcher({nullptr, patterns});
  EXPECT_EQ(matcher.feed("!Grüße aus Köln."), "!");
  EXPECT_EQ(matcher.matched(), 0);
}

TEST(StopRegex, RefusalsNameThePatternAndSayWhy) {
  const auto refused = [](const std::vector<std::string>& patterns, Error::Kind kind, const char* part) {
    const auto made = compile_stop_regex(patterns);
    ASSERT_FALSE(made.ok()) << patterns.back();
    EXPECT_EQ(made.error().kind, kind) << made.error().message;
    EXPECT_EQ(made.error().field, "stop_regex");
    EXPECT_THAT(made.error().message, HasSubstr(part));
  };
  refused({"a", "b("}, Error::Kind::bad_request, "stop_regex[1]: regex: a missing ) for the group");
  refused({"a*"}, Error::Kind::bad_request, "stop_regex[0]: regex: it matches the empty text");
  refused({"^"}, Error::Kind::bad_request, "matches the empty text");
  refused({"end$"}, Error::Kind::unsupported, "where a text ends is not known");
  refused({R"(end\Z)"}, Error::Kind::unsupported, "where a text ends is not known");
  refused({R"(\bend)"}, Error::Kind::unsupported, "stop_regex[0]: regex: ");
  refused({"(?=a)b"}, Error::Kind::unsupported, "stop_regex[0]: regex: ");
  refused({"a{5000}"}, Error::Kind::bad_request, "more than 4096 states");
  refused({"(?:a|b)*a(?:a|b){12}"}, Error::Kind::bad_request, "more than 4096 states");
  refused({"(?:(?:a?b?c?){40}){40}d"}, Error::Kind::bad_request, "more than 4096 states");
}

TEST(StopRegex, TooManyKindsOfCharactersAreRefused) {
  std::string pattern;
  for (char32_t c = 0x4e00; c < 0x4e00 + 300; ++c) {
    pattern += static_cast<char>(0xe0 | (c >> 12));
    pattern += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    pattern += static_cast<char>(0x80 | (c & 0x3f));
  }
  const auto made = compile_stop_regex({pattern});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "grammar_too_complex");
  EXPECT_EQ(made.error().field, "stop_regex");
}

}  // namespace
}  // namespace espalier::grammar
