#include "grammar/automaton/expression.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>

#include "grammar/characters/spelling.h"
#include "testing/data.h"

namespace espalier::grammar {
namespace {

using Store = ExpressionStore;

TEST(Expressions, AreKeptOnceHoweverTheyAreMade) {
  Store store;
  const Expression a = store.text("a"), b = store.text("b"), c = store.text("c");
  EXPECT_EQ(store.either(a, store.either(b, c)), store.either(store.either(c, a), b));
  EXPECT_EQ(store.concat(store.concat(a, b), c), store.concat(a, store.concat(b, c)));
  EXPECT_EQ(store.negation(store.negation(a)), a);
  EXPECT_EQ(store.both(a, store.anything()), a);
  EXPECT_EQ(store.both(a, store.negation(a)), Store::nothing);
  EXPECT_EQ(store.either(a, Store::nothing), a);
  EXPECT_EQ(store.repeat(a, 1, 1), a);
}

TEST(Expressions, BesideAnyTextNothingElseIsRead) {
  for (const auto kind : {Spelling::Kind::plain, Spelling::Kind::json}) {
    Store store;
    Spelling spelling(store, kind);
    const Expression any = store.star(spelling.any_character()), quote = store.text("\"");
    const Expression umlaut = spelling.character(CodePointSet(0xe4, 0xe4)), word = store.text("ab");
    EXPECT_EQ(store.either(any, store.repeat(store.either(umlaut, word), 2, 3)), any);
    EXPECT_EQ(store.either(any, store.concat({word, any, word})), any);
    EXPECT_EQ(store.either(store.concat(any, quote), store.concat({word, any, quote})), store.concat(any, quote));
    EXPECT_EQ(store.either(store.concat(any, quote), quote), store.concat(any, quote));
    const Expression bounded = store.repeat(spelling.any_character(), 2, 5);
    EXPECT_EQ(store.both(any, bounded), bounded);
    EXPECT_EQ(store.both(word, store.negation(any)), Store::nothing);
    // What is no character by itself, or does not end alike, stays.
    const Expression begun = store.after(umlaut, 0xc3), both_ways = store.either(any, begun);
    EXPECT_TRUE(store.accepts(both_ways, "\xa4"));
    const Expression other_end = store.either(store.concat(any, quote), store.concat(word, store.text("!")));
    EXPECT_TRUE(store.accepts(other_end, "ab!"));
  }
}

TEST(Expressions, FingerprintsAreTheSameInEveryStore) {
  Store one, other;
  other.text("something that shifts the numbers");
  const auto make = [](Store& store) {
    return store.concat(store.repeat(store.either(store.text("xy"), store.bytes(ByteSet::range('0', '9'))), 2, 7),
                        store.negation(store.text("z")));
  };
  EXPECT_EQ(one.fingerprint(make(one)), other.fingerprint(make(other)));
  EXPECT_NE(one.fingerprint(one.text("a")), other.fingerprint(other.text("b")));
}

TEST(Expressions, TextsThatBeginAlikeAreReadTogether) {
  Store store(1'000'000);
  store.limits().set_room([&] { return store.memory() <= 256u << 20; });
  std::vector<std::string> texts{"", "a", "ab", "ac", "b"};
  const std::vector<std::string_view> few(texts.begin(), texts.end());
  const Expression any = store.any_of(few);
  for (const std::string_view text : few) EXPECT_TRUE(store.accepts(any, text)) << text;
  for (const std::string_view text : {"abc", "aa", "c", "ba"}) EXPECT_FALSE(store.accepts(any, text)) << text;
  EXPECT_EQ(store.any_of({"a", "b", "a"}), store.bytes(ByteSet::range('a', 'b')));
  EXPECT_EQ(store.any_of({}), Store::nothing);

  // However many there are: a byte of theirs leads to one place.
  texts.clear();
  for (int i = 0; i < 3000; ++i) texts.push_back(std::string(1000, 'x') + std::to_string(i));
  const Expression many = store.any_of({texts.begin(), texts.end()});
  const std::size_t before = store.size();
  EXPECT_TRUE(store.accepts(many, texts[1234]));
  EXPECT_LT(store.size() - before, 10'000);
}

// Each the beginning of the next: nested as deep as there are texts.
TEST(Expressions, TextsThatGoOnEachOtherAreReadTogether) {
  Store store(10'000'000);
  store.limits().set_room([&] { return store.memory() <= 256u << 20; });
  const std::string longest(20'000, 'a');
  std::vector<std::string_view> texts;
  for (std::size_t i = 1; i <= longest.size(); ++i) texts.push_back(std::string_view(longest).substr(0, i));
  const Expression any = store.any_of(texts);
  EXPECT_TRUE(store.possible(any));
  EXPECT_TRUE(store.accepts(any, texts[100]));
  EXPECT_FALSE(store.accepts(any, "ab"));
}

TEST(Expressions, CountersOfTheSameItemAreJoined) {
  Store store;
  const Expression x = store.bytes(ByteSet::range('a', 'z')), tail = store.text("!");
  const auto counted = [&](std::uint32_t low, std::uint32_t high) {
    return store.concat(store.repeat(x, low, high), tail);
  };
  EXPECT_EQ(store.either(counted(0, 5), counted(3, 9)), counted(0, 9));
  EXPECT_EQ(store.either(counted(0, 2), counted(3, 4)), counted(0, 4));
  EXPECT_NE(store.either(counted(0, 2), counted(4, 5)), counted(0, 5)) << "three are not allowed";
  EXPECT_EQ(store.repeat(store.repeat(x, 1, 100), 1, 100), store.repeat(x, 1, 10'000));
  EXPECT_NE(store.repeat(store.repeat(x, 2, 2), 0, 3), store.repeat(x, 0, 6)) << "odd counts are not allowed";
}

TEST(Expressions, AnIntersectionWithoutTextsIsKnownToBeImpossible) {
  Store store;
  const Expression digit = store.bytes(ByteSet::range('0', '9')), letter = store.bytes(ByteSet::range('a', 'z'));
  const Expression digits = store.repeat(digit, 1), letters = store.repeat(letter, 1);
  EXPECT_FALSE(store.possible(store.both(digits, letters)));
  EXPECT_TRUE(store.possible(store.both(store.star(digit), store.star(letter)))) << "the empty text";
  // A step that leads nowhere is not offered.
  const Expression three =
      store.both(store.repeat(digit, 3, 3), store.concat(store.text("1"), store.star(store.text("2"))));
  EXPECT_TRUE(store.accepts(three, "122"));
  EXPECT_EQ(store.after(three, '2'), Store::nothing);
}

TEST(Expressions, StopGrowingAtTheirLimit) {
  Store store(50);
  for (int i = 0; i < 100; ++i) store.text(std::to_string(i) + "!");
  EXPECT_TRUE(store.exhausted());
  EXPECT_LE(store.size(), 50u);
}

// A random expression, and an independent judge of which texts it reads: all ways to split the text are tried.
struct Random {
  using Judge = std::function<bool(std::string_view)>;
  struct Pair {
    Expression expression;
    Judge reads;
  };

  Pair make(int depth) {
    switch (depth == 0 ? pick(2) : pick(8)) {
      case 0: {
        const char c = static_cast<char>('a' + pick(3));
        return {store.text(std::string(1, c)), [c](std::string_view t) { return t.size() == 1 && t[0] == c; }};
      }
      case 1: {
        std::string text;
        for (int i = pick(3); i >= 0; --i) text += static_cast<char>('a' + pick(3));
        return {store.text(text), [text](std::string_view t) { return t == text; }};
      }
      case 2:
      case 3: {
        const Pair a = make(depth - 1), b = make(depth - 1);
        return {store.concat(a.expression, b.expression), [=](std::string_view t) {
                  for (std::size_t i = 0; i <= t.size(); ++i) {
                    if (a.reads(t.substr(0, i)) && b.reads(t.substr(i))) return true;
                  }
                  return false;
                }};
      }
      case 4: {
        const Pair a = make(depth - 1), b = make(depth - 1);
        return {store.either(a.expression, b.expression), [=](std::string_view t) { return a.reads(t) || b.reads(t); }};
      }
      case 5: {
        const Pair a = make(depth - 1), b = make(depth - 1);
        return {store.both(a.expression, b.expression), [=](std::string_view t) { return a.reads(t) && b.reads(t); }};
      }
      case 6: {
        const Pair a = make(depth - 1);
        return {store.negation(a.expression), [=](std::string_view t) { return !a.reads(t); }};
      }
      default: {
        const Pair a = make(depth - 1);
        const int low = pick(3), high = pick(3) == 0 ? -1 : low + pick(3);
        const auto most = high < 0 ? Store::unbounded : static_cast<std::uint32_t>(high);
        return {store.repeat(a.expression, static_cast<std::uint32_t>(low), most),
                [=](std::string_view t) { return repeats(a.reads, t, low, high); }};
      }
    }
  }

  static bool repeats(const Judge& item, std::string_view text, int low, int high) {
    if (text.empty() && (low == 0 || item(""))) return true;
    if (high == 0) return false;
    for (std::size_t i = 1; i <= text.size(); ++i) {
      if (item(text.substr(0, i)) && repeats(item, text.substr(i), std::max(0, low - 1), high < 0 ? -1 : high - 1)) {
        return true;
      }
    }
    // Items that read nothing can make up the count.
    return low > 0 && item("") && repeats(item, text, 0, high);
  }

  int pick(int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); }

  std::mt19937 random;
  Store store;
};

TEST(Expressions, ReadTheTextsTheySay) {
  const auto seed = static_cast<unsigned>(testing::seed());
  std::vector<std::string> texts{""};
  for (std::size_t i = 0; texts[i].size() < 5; ++i) {
    for (const char c : {'a', 'b', 'c'}) texts.push_back(texts[i] + c);
  }
  for (unsigned round = 0; round < 150; ++round) {
    Random random{std::mt19937(seed + round), Store()};
    const Random::Pair pair = random.make(3);
    bool any = false;
    for (const std::string& text : texts) {
      const bool expected = pair.reads(text);
      any |= expected;
      ASSERT_EQ(random.store.accepts(pair.expression, text), expected) << "seed " << seed + round << ", text " << text;
    }
    ASSERT_TRUE(!any || random.store.possible(pair.expression)) << "seed " << seed + round;
  }
}

TEST(Expressions, OneByteReadByItselfLeadsWhereItDoesAmongAll) {
  const auto seed = static_cast<unsigned>(testing::seed());
  for (unsigned round = 0; round < 300; ++round) {
    Random random{std::mt19937(seed + round), Store()};
    Expression at = random.make(4).expression;
    for (int step = 0; step < 8 && at != Store::nothing; ++step) {
      const auto byte = static_cast<unsigned char>('a' + random.pick(3));
      const Expression next = random.store.derivative(at, byte);
      ASSERT_EQ(next, random.store.after(at, byte)) << "seed " << seed + round << ", step " << step;
      at = next;
    }
  }
}

TEST(Expressions, TakeNoMoreMemoryThanTheyMay) {
  constexpr std::size_t kMost = 4u << 20;
  Store store(10'000'000);
  store.limits().set_room([&] { return store.memory() <= kMost; });
  for (int i = 0; i < 1'000'000 && !store.exhausted(); ++i) store.text(std::to_string(i) + " is a text of its own");
  EXPECT_TRUE(store.exhausted());
  EXPECT_LT(store.memory(), 2 * kMost);
}

}  // namespace
}  // namespace espalier::grammar
