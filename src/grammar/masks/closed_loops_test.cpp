#include "grammar/masks/closed_loops.h"

#include <gtest/gtest.h>

#include "grammar/characters/spelling.h"
#include "grammar/regex/regex.h"

namespace espalier::grammar {
namespace {

class ClosedLoopsOf : public ::testing::Test {
 protected:
  // Of where texts with a match of `pattern` in them begin (whole: that it matches).
  const ClosedLoop& of(const char* pattern, bool whole = false) {
    Spelling spelling(store, Spelling::Kind::plain);
    const Regex regex = *parse_regex(pattern);
    return loops.of(automaton.start(whole ? *spelling.whole(regex) : *spelling.search(regex)));
  }
  static bool has(Classes classes, char byte) { return (classes & class_of(static_cast<unsigned char>(byte))) != 0; }

  ExpressionStore store;
  Automaton automaton{store, AutomatonLimits{}};
  ClosedLoops loops{automaton};
};

TEST_F(ClosedLoopsOf, AnyCharacterMayComeWhileAWordIsLookedFor) {
  const ClosedLoop& loop = of("material");
  for (const char byte : {'m', 'a', 'z', '7', ' ', '_', '%'}) EXPECT_TRUE(has(loop.inside, byte)) << byte;
  EXPECT_TRUE(loop.inside & class_of(0xe6)) << "characters that are not ASCII";
  EXPECT_TRUE(loop.inside & kContinuation);
}

TEST_F(ClosedLoopsOf, WhatMayNotComeAnywhereIsLeftOut) {
  const ClosedLoop& loop = of("[a-z]+(-[a-z]+)*", true);
  EXPECT_TRUE(has(loop.inside, 'a'));
  EXPECT_FALSE(has(loop.inside, '7')) << "it cannot come";
  EXPECT_FALSE(has(loop.inside, '-')) << "two in a row cannot come";
  EXPECT_TRUE(has(loop.leaving, '-'));
  EXPECT_FALSE(loop.inside & kContinuation);
}

TEST_F(ClosedLoopsOf, TheRarerByteIsLeftOutWhereBothCannotStay) {
  const ClosedLoop& loop = of("([a-zA-Z0-9]|%[0-9]{2})*", true);
  EXPECT_TRUE(has(loop.inside, 'a') && has(loop.inside, 'Z') && has(loop.inside, '0'));
  EXPECT_FALSE(has(loop.inside, '%'));
  EXPECT_TRUE(has(loop.leaving, '%'));
}

TEST_F(ClosedLoopsOf, WhatAllWaysToAPlaceHaveInCommonIsLeftOut) {
  const ClosedLoop& loop = of("[^ ]*( +[^ ]+)?x", true);
  EXPECT_FALSE(has(loop.inside, ' ')) << "behind the second word no blank can come";
  for (const char byte : {'!', '_', '7', 'a'}) EXPECT_TRUE(has(loop.inside, byte)) << byte;
}

TEST_F(ClosedLoopsOf, OneCharacterThatCannotComeLeavesOutThoseThatBeginAlike) {
  const ClosedLoop& loop = of("[^日]*", true);
  EXPECT_FALSE(loop.inside & class_of(0xe6));
  EXPECT_TRUE(loop.inside & class_of(0xd0));
}

TEST_F(ClosedLoopsOf, WhatIsCountedEndsSoThereIsNone) {
  EXPECT_FALSE(of("[a-z]{0,9}", true).inside);
  EXPECT_FALSE(of("[a-z]{0,5000}", true).inside);
}

}  // namespace
}  // namespace espalier::grammar
