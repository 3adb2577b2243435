// Sets of characters against a plain table of which are in.
#include "grammar/characters/code_points.h"

#include <gtest/gtest.h>

#include <bitset>
#include <memory>
#include <random>

#include "testing/data.h"

namespace espalier::grammar {
namespace {

bool is_surrogate(std::uint32_t c) {
  return c >= 0xD800 && c <= 0xDFFF;
}

// Characters near the surrogates, where ranges must break, and at both ends of Unicode.
std::uint32_t random_character(std::mt19937_64& random) {
  constexpr std::uint32_t near[] = {0, 0xD7F0, 0xDFF8, 0x10FFF0};
  return near[random() % 4] + static_cast<std::uint32_t>(random() % 16);
}

class Table {
 public:
  void add(std::uint32_t low, std::uint32_t high) {
    for (std::uint32_t c = low; c <= high; ++c)
      if (!is_surrogate(c)) in_->set(c);
  }

  // As the header promises them: sorted, disjoint, as few as possible.
  std::vector<CodePointRange> ranges() const {
    std::vector<CodePointRange> out;
    for (std::uint32_t c = 0; c < in_->size(); ++c) {
      if (!in_->test(c)) continue;
      if (c > 0 && in_->test(c - 1)) {
        out.back().high = c;
      } else {
        out.push_back({c, c});
      }
    }
    return out;
  }

 private:
  std::unique_ptr<std::bitset<0x110000>> in_ = std::make_unique<std::bitset<0x110000>>();
};

CodePointSet random_set(std::mt19937_64& random, Table* table = nullptr) {
  CodePointSet set;
  for (std::size_t n = random() % 6; n > 0; --n) {
    std::uint32_t low = random_character(random), high = random_character(random);
    if (low > high) std::swap(low, high);
    if (random() % 2 == 0) high = low;
    set.add(low, high);
    if (table != nullptr) table->add(low, high);
  }
  return set;
}

TEST(CodePointSet, AddedRangesBecomeAsFewAsPossible) {
  std::mt19937_64 random(testing::seed());
  for (int n = 0; n < 20; ++n) {
    Table table;
    const CodePointSet set = random_set(random, &table);
    ASSERT_EQ(set.ranges(), table.ranges());
  }
}

TEST(CodePointSet, OperationsAgreeWithMembership) {
  std::mt19937_64 random(testing::seed());
  for (int n = 0; n < 2000; ++n) {
    const CodePointSet a = random_set(random), b = random_set(random);
    CodePointSet both = a;
    both.add(b);
    for (int i = 0; i < 40; ++i) {
      const std::uint32_t c = random_character(random);
      ASSERT_EQ(both.contains(c), a.contains(c) || b.contains(c));
      ASSERT_EQ(a.complement().contains(c), !is_surrogate(c) && !a.contains(c));
      ASSERT_EQ(a.intersect(b).contains(c), a.contains(c) && b.contains(c));
      ASSERT_EQ(a.without(b).contains(c), a.contains(c) && !b.contains(c));
    }
    ASSERT_EQ(a.complement().complement(), a);
    both.add(a);
    ASSERT_EQ(both.intersect(a), a);
  }
}

TEST(CodePointSet, NeitherSurrogatesNorLargerNumbersGetIn) {
  EXPECT_TRUE(CodePointSet(0xD800, 0xDFFF).empty());
  EXPECT_TRUE(CodePointSet(0x110000, 0xFFFFFFFF).empty());
  EXPECT_TRUE(CodePointSet(2, 1).empty());
  EXPECT_EQ(CodePointSet(0, 0xFFFFFFFF), CodePointSet::all());
  EXPECT_EQ(CodePointSet::all().ranges(), (std::vector<CodePointRange>{{0, 0xD7FF}, {0xE000, 0x10FFFF}}));
  EXPECT_TRUE(CodePointSet::all().complement().empty());
  EXPECT_EQ(CodePointSet().complement(), CodePointSet::all());
}

}  // namespace
}  // namespace espalier::grammar
