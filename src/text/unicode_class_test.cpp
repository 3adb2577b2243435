#include "text/unicode_class.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace espalier {
namespace {

bool has(const std::vector<CharacterRange>& ranges, std::uint32_t c) {
  return std::any_of(ranges.begin(), ranges.end(), [c](const auto& r) { return r.low <= c && c <= r.high; });
}

std::set<std::uint32_t> characters(const std::vector<CharacterRange>& ranges) {
  std::set<std::uint32_t> out;
  for (const auto& range : ranges)
    for (std::uint32_t c = range.low; c <= range.high; ++c) out.insert(c);
  return out;
}

TEST(UnicodeClass, CategoriesScriptsAndPropertiesAreFoundByEachOfTheirNames) {
  for (const auto& names : std::vector<std::vector<std::string>>{
           {"Lu", "gc=Lu", "Uppercase_Letter", "uppercase letter", "General_Category=Uppercase-Letter"},
           {"L", "Letter", "gc=L"},
           {"Greek", "Grek", "Script=Greek", "sc=Greek", "IsGreek"},
           {"Nd", "Decimal_Number", "digit"},
           {"White_Space", "whitespace", "space"},
           {"Cs", "Surrogate", "gc=Cs"}}) {
    const auto first = unicode_class(names[0]);
    ASSERT_TRUE(first.ok()) << names[0];
    for (const auto& name : names) EXPECT_EQ(unicode_class(name).value(), *first) << name;
  }
  EXPECT_TRUE(has(*unicode_class("Lu"), 'A') && !has(*unicode_class("Lu"), 'a'));
  EXPECT_TRUE(has(*unicode_class("Alphabetic"), 0x345) && !has(*unicode_class("L"), 0x345));
  EXPECT_EQ(*unicode_class("Zl"), (std::vector<CharacterRange>{{0x2028, 0x2028}}));
  EXPECT_TRUE(unicode_class("Cs")->empty());  // no text has a surrogate
}

TEST(UnicodeClass, RangesAreAscendingAndDisjoint) {
  for (const char* name : {"L", "Cn", "Greek", "ID_Continue", "Any"}) {
    const auto ranges = unicode_class(name);
    ASSERT_TRUE(ranges.ok()) << name;
    for (std::size_t i = 0; i < ranges->size(); ++i) {
      EXPECT_LE((*ranges)[i].low, (*ranges)[i].high);
      EXPECT_TRUE(i == 0 || (*ranges)[i - 1].high < (*ranges)[i].low);
    }
  }
}

TEST(UnicodeClass, AnUnknownNameIsABadRequestThatRepeatsIt) {
  for (const std::string name : {"Nonsense", "sc=Nonsense", "", "L}", "L}|\\p{N", "^L", "\xff", "L\n"}) {
    const auto ranges = unicode_class(name);
    ASSERT_FALSE(ranges.ok()) << name;
    EXPECT_EQ(ranges.error().kind, Error::Kind::bad_request) << name;
  }
  EXPECT_NE(unicode_class("Nonsense").error().message.find("\"Nonsense\""), std::string::npos);
  EXPECT_LT(unicode_class(std::string(1 << 20, 'x')).error().message.size(), 200u);
}

TEST(UnicodeClass, TheClosureUnderCaseAddsWhatFoldsToTheSame) {
  const auto closed = [](std::vector<CharacterRange> ranges) { return characters(*case_closure(ranges)); };
  EXPECT_EQ(closed({}), (std::set<std::uint32_t>{}));
  EXPECT_EQ(closed({{'1', '1'}}), (std::set<std::uint32_t>{'1'}));
  EXPECT_EQ(closed({{'k', 'k'}}), (std::set<std::uint32_t>{'K', 'k', 0x212A}));
  EXPECT_EQ(closed({{0xDF, 0xDF}}), (std::set<std::uint32_t>{0xDF, 0x1E9E}));
  EXPECT_EQ(closed({{'i', 'i'}}), (std::set<std::uint32_t>{'I', 'i'}));
  EXPECT_EQ(closed({{'y', 'z'}, {'A', 'B'}}), (std::set<std::uint32_t>{'A', 'B', 'Y', 'Z', 'a', 'b', 'y', 'z'}));
  const auto once = *case_closure(*unicode_class("Lu"));
  EXPECT_EQ(closed(once), characters(once));
}

}  // namespace
}  // namespace espalier
