// Snapshots of recurrent states in the radix tree, and the cells they are kept in.
#include <gtest/gtest.h>

#include <numeric>

#include "cache/testing/test_tokens.h"
#include "cache/tree/radix_tree.h"

namespace espalier::radix_tree_states_test {
namespace {

using testing::counting;
using testing::join;
using testing::Tokens;

struct Cache {
  void insert(const Tokens& tokens) { tree.insert({"", tokens}, *pool.allocate(static_cast<int>(tokens.size()))); }
  // Leaves a state behind so many tokens; the number of its cell.
  int leave(const Tokens& tokens, int position) {
    const Match match = tree.match({"", tokens}, {.with_state = false});
    StateCell cell = cells.take();
    const int index = cell.index();
    tree.leave_state(match.pin, position, std::move(cell));
    return index;
  }
  ~Cache() {
    const auto checked = tree.check();
    EXPECT_TRUE(checked.ok()) << checked.error().message;
  }

  SlotAllocator pool{4096};
  StateCells cells{8};
  RadixTree tree{pool, EvictionKind::lru, &cells};
};

TEST(StateCells, ACellIsFreeAgainOnceItsLastShareIsGone) {
  StateCells cells(2);
  StateCell one = cells.take(), two = cells.take();
  EXPECT_FALSE(cells.take());
  StateCell again = one.share();
  EXPECT_EQ(again.index(), one.index());
  EXPECT_FALSE(one.sole());
  EXPECT_TRUE(two.sole());
  one.reset();
  EXPECT_TRUE(again.sole());
  EXPECT_EQ(cells.free(), 0);
  const int freed = again.index();
  again = StateCell();
  EXPECT_EQ(cells.take().index(), freed);
  EXPECT_TRUE(cells.check().ok());
}

TEST(RadixTreeStates, AMatchGoesBackToTheLastSnapshotAtOrBeforeTheDivergence) {
  Cache cache;
  const Tokens text = counting(0, 100);
  cache.insert(text);
  const int at_30 = cache.leave(text, 30), at_70 = cache.leave(text, 70);
  for (const auto& [same, length, cell] : {std::tuple{29, 0, -1}, {30, 30, at_30}, {69, 30, at_30}, {99, 70, at_70}}) {
    const Tokens key = join(counting(0, same), {-1, -2});
    const Match match = cache.tree.match({"", key});
    EXPECT_EQ(match.length, length);
    EXPECT_EQ(match.held, same);
    EXPECT_EQ(match.state.index(), cell);
    EXPECT_EQ(match.end, same == length ? MatchEnd::diverged : MatchEnd::no_state);
    EXPECT_EQ(match.pin.length(), length);
    EXPECT_EQ(cache.tree.peek({"", key}).length, length);
    EXPECT_EQ(cache.tree.peek({"", key}).held, same);
  }
  EXPECT_EQ(cache.tree.match({"", text}, {.length = 69}).length, 30);
  EXPECT_EQ(cache.tree.match({"", text}, {.with_state = false}).length, 100);
}

TEST(RadixTreeStates, ASnapshotInsideWhatMayNotBeCutIsPassedOver) {
  Cache cache;
  const Tokens text = counting(0, 100);
  cache.insert(text);
  cache.leave(text, 20);
  cache.leave(text, 50);
  const TokenSpan picture[] = {{40, 60}};
  EXPECT_EQ(cache.tree.match({"", text, picture}).length, 20);
  EXPECT_EQ(cache.tree.match({"", text}, {.multiple = 40}).length, 0);
}

TEST(RadixTreeStates, SplitsLeaveSnapshotsWhereTheyAre) {
  Cache cache;
  const Tokens text = counting(0, 100);
  cache.insert(text);
  cache.leave(text, 60);
  cache.insert(join(counting(0, 40), counting(1000, 30)));
  cache.insert(join(counting(0, 80), counting(2000, 30)));
  EXPECT_EQ(cache.tree.match({"", text}).length, 60);
  cache.leave(text, 40);
  EXPECT_EQ(cache.tree.match({"", join(counting(0, 40), counting(1000, 30))}).length, 40);
}

TEST(RadixTreeStates, EvictedTokensTakeTheirSnapshotsAlong) {
  Cache cache;
  const Tokens text = counting(0, 100);
  cache.insert(text);
  cache.leave(text, 30);
  cache.leave(text, 70);
  cache.tree.evict(30);  // ends at 70: the state behind the last token stays
  EXPECT_EQ(cache.tree.match({"", text}).length, 70);
  cache.tree.evict(1);
  EXPECT_EQ(cache.tree.match({"", text}).length, 30);
  EXPECT_EQ(cache.cells.used(), 1);
  cache.tree.evict_all();
  EXPECT_EQ(cache.cells.used(), 0);
}

TEST(RadixTreeStates, ASnapshotThatSavesLittleGoesBeforeOneThatSavesMuch) {
  Cache cache;
  const Tokens text = counting(0, 200);
  cache.insert(text);
  for (const int position : {100, 105, 180}) cache.leave(text, position);
  EXPECT_EQ(cache.tree.evict_states(1), 1);
  EXPECT_EQ(cache.tree.match({"", counting(0, 150)}).length, 100);
  EXPECT_EQ(cache.tree.match({"", text}).length, 180);
}

TEST(RadixTreeStates, OfThoseThatWereUsedOnceTheOldestThatNobodySharesGoesFirst) {
  Cache cache;
  const Tokens text = counting(0, 100);
  cache.insert(text);
  for (const int position : {10, 20, 30, 40}) cache.leave(text, position);
  const Match user = cache.tree.match({"", counting(0, 10)});  // uses and shares the one at 10
  for (const int position : {30, 40}) (void)cache.tree.match({"", counting(0, position)});
  EXPECT_EQ(cache.tree.evictable_states(), 3);
  EXPECT_EQ(cache.tree.evict_states(1), 1);
  EXPECT_EQ(cache.tree.match({"", counting(0, 39)}, {.length = 39}).length, 20) << "the one at 30 went";
  EXPECT_EQ(cache.tree.evict_states(8), 2);
  EXPECT_EQ(cache.tree.match({"", text}).length, 10);
  cache.tree.forget_state(user.state.index());
  EXPECT_EQ(cache.tree.match({"", text}).length, 0);
  EXPECT_TRUE(user.state.sole());
}

TEST(RadixTreeStates, TheFirstSnapshotOfAPositionStays) {
  Cache cache;
  const Tokens text = counting(0, 50);
  cache.insert(text);
  const int first = cache.leave(text, 50);
  cache.leave(text, 50);
  EXPECT_EQ(cache.tree.match({"", text}).state.index(), first);
  EXPECT_EQ(cache.cells.used(), 1);
}

TEST(RadixTreeStates, WhatCannotStandIsAFaultAndFreesItsCell) {
  Cache cache;
  const Tokens text = counting(0, 50);
  cache.insert(text);
  cache.leave(text, 51);
  cache.leave(text, 0);
  EXPECT_EQ(cache.tree.statistics().faults, 2);
  EXPECT_EQ(cache.cells.used(), 0);
}

struct Watch final : EvictionObserver {
  void evicting(const RadixTree&, NodeHandle, int) override {}
  void evicting_state(const RadixTree& tree, NodeHandle node, int position, int cell) override {
    const auto view = tree.view(node);
    EXPECT_LT(view.begin, position);
    EXPECT_GE(view.end, position);
    EXPECT_TRUE(tree.holds_state(cell));
    seen.push_back(position);
  }
  std::vector<int> seen;
};

TEST(RadixTreeStates, AnObserverIsToldOfEverySnapshotBeforeItGoes) {
  Cache cache;
  Watch watch;
  const Tokens text = counting(0, 100);
  cache.insert(text);
  for (const int position : {10, 52, 90}) cache.leave(text, position);
  cache.insert(join(counting(0, 50), counting(1000, 3)));
  cache.tree.observe(&watch);
  cache.tree.evict_states(1);
  cache.tree.evict_all();
  cache.tree.observe(nullptr);
  EXPECT_EQ(watch.seen, (std::vector{10, 90, 52}));
}

}  // namespace
}  // namespace espalier::radix_tree_states_test
