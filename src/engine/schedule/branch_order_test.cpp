#include "engine/schedule/branch_order.h"

#include <gtest/gtest.h>

namespace espalier::branch_order_test {
namespace {

class BranchOrder : public ::testing::Test {
 protected:
  void hold(std::vector<TokenId> tokens) {
    auto slots = allocator_.allocate(static_cast<int>(tokens.size()));
    tree_.insert({"", tokens}, std::move(*slots));
  }
  NodeHandle end_of(const std::vector<TokenId>& tokens) const { return tree_.peek({"", tokens}).node; }

  SlotAllocator allocator_{1000};
  RadixTree tree_{allocator_};
};

TEST_F(BranchOrder, TheHeavierBranchGoesFirstAndIsUsedUpBeforeTheNext) {
  hold({1, 2, 3, 4});
  hold({1, 2, 5, 6});
  hold({1, 2, 5, 7});
  const NodeHandle light = end_of({1, 2, 3}), a = end_of({1, 2, 5, 6}), b = end_of({1, 2, 5, 7});
  const auto order = branch_order(tree_, std::vector{light, a, light, b, a});
  EXPECT_LT(order[1], order[0]);
  EXPECT_LT(order[3], order[0]);
  EXPECT_LT(order[1], order[3]);  // two against one
  EXPECT_EQ(order[1], order[4]);
  EXPECT_EQ(order[0], order[2]);
}

TEST_F(BranchOrder, WhoSharesOnlyTheBeginningComesBehindItsBranchesAndWhoSharesNothingLast) {
  hold({1, 2, 3, 4});
  hold({1, 2, 5, 6});
  hold({8, 9});
  const NodeHandle beginning = end_of({1, 2}), one = end_of({1, 2, 3, 4}), other = end_of({1, 2, 5, 6});
  const NodeHandle elsewhere = end_of({8, 9});
  const auto order = branch_order(tree_, std::vector{beginning, NodeHandle{}, one, elsewhere, other, beginning});
  EXPECT_LT(order[2], order[0]);
  EXPECT_LT(order[4], order[0]);
  EXPECT_LT(order[0], order[3]);  // four below the one, one below the other
  EXPECT_LT(order[3], order[1]);
}

}  // namespace
}  // namespace espalier::branch_order_test
