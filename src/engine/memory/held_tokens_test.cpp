#include "engine/memory/held_tokens.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace espalier::held_tokens_test {
namespace {

std::vector<Extent> extents_of(const HeldTokens& held) {
  std::vector<Extent> out;
  held.for_each_extent([&](const Extent& extent) { out.push_back(extent); });
  EXPECT_EQ(held.extents(), static_cast<int>(out.size()));
  return out;
}

class HeldTokensTest : public ::testing::Test {
 protected:
  HeldTokensTest() : tokens_(200) { std::iota(tokens_.begin(), tokens_.end(), 0); }

  SlotAllocator pool_{1024};
  RadixTree tree_{pool_};
  std::vector<TokenId> tokens_;
};

TEST_F(HeldTokensTest, WhatGrowsBehindTheTreesSlotsIsTheSameExtent) {
  HeldTokens held;
  Match nothing = tree_.match({"", tokens_});
  held.begin(std::move(nothing.pin), std::move(nothing.extents));
  EXPECT_TRUE(extents_of(held).empty());
  ASSERT_TRUE(held.grow(pool_, 100));
  EXPECT_EQ(extents_of(held).size(), 1u);
  held.give_to(tree_, tokens_, 100);
  ASSERT_TRUE(held.grow(pool_, 20));
  EXPECT_EQ(held.own_length(), 20);
  const auto extents = extents_of(held);
  ASSERT_EQ(extents.size(), 1u);
  EXPECT_EQ(extents[0].length, 120);
  EXPECT_EQ(extents[0].start, held.slot_at(0));
}

TEST_F(HeldTokensTest, WhatLiesElsewhereIsAnExtentOfItsOwn) {
  HeldTokens first, second;
  Match nothing = tree_.match({"", tokens_});
  first.begin(std::move(nothing.pin), std::move(nothing.extents));
  ASSERT_TRUE(first.grow(pool_, 100));
  first.give_to(tree_, tokens_, 100);
  ASSERT_TRUE(first.grow(pool_, 8));
  Match prefix = tree_.match({"", std::span<const TokenId>(tokens_).first(100)});
  ASSERT_EQ(prefix.length, 100);
  second.begin(std::move(prefix.pin), std::move(prefix.extents));
  ASSERT_TRUE(second.grow(pool_, 8));
  EXPECT_EQ(extents_of(first).size(), 1u);
  const auto extents = extents_of(second);
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[1].start, second.slot_at(100));
}

}  // namespace
}  // namespace espalier::held_tokens_test
