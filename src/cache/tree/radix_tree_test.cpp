#include "cache/tree/radix_tree.h"

#include <gtest/gtest.h>

#include <numeric>

#include "cache/testing/test_tokens.h"

namespace espalier::radix_tree_test {
namespace {

using testing::counting;
using testing::join;
using testing::Tokens;

struct Cache {
  explicit Cache(int capacity = 4096, EvictionKind kind = EvictionKind::lru) : pool(capacity), tree(pool, kind) {}

  Insertion insert(const Tokens& tokens, std::string_view scope = "", std::span<const TokenSpan> whole = {}) {
    return tree.insert({scope, tokens, whole}, *pool.allocate(static_cast<int>(tokens.size())));
  }
  int held(const Tokens& tokens, std::string_view scope = "") { return tree.peek({scope, tokens}).length; }
  void expect_sound() {
    auto checked = tree.check();
    EXPECT_TRUE(checked.ok()) << checked.error().message;
  }

  SlotAllocator pool;
  RadixTree tree;
};

TEST(RadixTree, FindsTheLongestPrefixAtAnyToken) {
  Cache cache;
  ExtentList slots = cache.insert(counting(0, 100)).extents;
  for (int length : {1, 37, 99, 100}) {
    Match match = cache.tree.match({"", join(counting(0, length), {-1, -2})});
    EXPECT_EQ(match.length, length);
    EXPECT_EQ(match.extents, slots.slice(0, length));
    EXPECT_EQ(match.pin.length(), length);
    cache.expect_sound();
  }
}

TEST(RadixTree, MovedTokensAreFoundInTheirNewSlotsByAllWhoShareThem) {
  Cache cache;
  Match whole = (cache.insert(counting(0, 100)), cache.tree.match({"", counting(0, 100)}));
  Match part = cache.tree.match({"", join(counting(0, 60), {-1})});
  const int used = cache.pool.used_slots();
  OwnedSlots slots = *cache.pool.allocate(70);
  const ExtentList fresh = slots.extents();
  EXPECT_TRUE(cache.tree.move(cache.tree.node(whole.pin), 100, std::move(slots)));
  ExtentList expected = whole.extents.slice(0, 30);
  expected.append(fresh);
  EXPECT_EQ(cache.tree.extents(whole.pin), expected);
  EXPECT_EQ(cache.tree.extents(part.pin), expected.slice(0, 60));
  EXPECT_EQ(cache.pool.used_slots(), used);
  cache.expect_sound();
  EXPECT_FALSE(cache.tree.move(cache.tree.node(whole.pin), 100, *cache.pool.allocate(101))) << "more than there are";
  EXPECT_FALSE(cache.tree.move(cache.tree.node(whole.pin), 101, *cache.pool.allocate(1))) << "behind the end";
  EXPECT_EQ(cache.tree.extents(whole.pin), expected);
  cache.expect_sound();
}

TEST(RadixTree, EvictionCanFreeWholeExtents) {
  Cache cache;
  Tokens tokens = counting(0, 10);
  cache.insert(tokens);
  OwnedSlots between = *cache.pool.allocate(100);  // the next ones cannot lie behind
  tokens = counting(0, 90);
  const int last = cache.insert(tokens).extents.extents().back().length;
  ASSERT_GT(last, 20);
  EXPECT_EQ(cache.tree.evict(5, 3), 5) << "the extent begins too far away";
  EXPECT_EQ(cache.tree.evict(5, 100), last - 5) << "no more than the extent, though more is allowed";
  EXPECT_EQ(cache.held(tokens), 90 - last);
  cache.expect_sound();
}

TEST(RadixTree, SaysWhyAMatchEnded) {
  Cache cache;
  Tokens base = counting(0, 50);
  cache.insert(base);
  auto end = [&](const Tokens& key, MatchLimit limit = {}) { return cache.tree.match({"", key}, limit).end; };
  EXPECT_EQ(end(base), MatchEnd::whole_key);
  EXPECT_EQ(end(counting(7, 5)), MatchEnd::cold);
  EXPECT_EQ(end(join(base, {9})), MatchEnd::tree_end);
  EXPECT_EQ(end(join(counting(0, 20), {9})), MatchEnd::diverged);
  EXPECT_EQ(end(base, {49, 1}), MatchEnd::limit);
  EXPECT_EQ(end(base, {100, 16}), MatchEnd::limit);
  cache.insert(join(counting(0, 30), {9, 9}));
  cache.tree.match({"", join(counting(0, 30), {9, 9})});  // used later than the rest
  cache.tree.evict(10);
  EXPECT_EQ(end(base), MatchEnd::evicted);
  cache.tree.evict_all();
  EXPECT_EQ(end(base), MatchEnd::evicted);
  EXPECT_EQ(cache.tree.match({"another", base}).end, MatchEnd::cold);
}

TEST(RadixTree, LimitAndMultipleShortenTheMatch) {
  Cache cache;
  Tokens key = counting(0, 100);
  cache.insert(key);
  EXPECT_EQ(cache.tree.match({"", key}, {99, 1}).length, 99);
  EXPECT_EQ(cache.tree.match({"", key}, {99, 16}).length, 96);
  EXPECT_EQ(cache.tree.match({"", key}, {-5, 1}).length, 0);
  EXPECT_EQ(cache.tree.match({"", key}, {50, 0}).length, 50);
  cache.expect_sound();
}

TEST(RadixTree, ScopesShareNothing) {
  Cache cache;
  Tokens key = counting(0, 10);
  cache.insert(key, "tenant-a");
  EXPECT_EQ(cache.held(key, "tenant-a"), 10);
  EXPECT_EQ(cache.held(key, "tenant-b"), 0);
  EXPECT_EQ(cache.held(key), 0);
  EXPECT_EQ(cache.tree.statistics().scopes, 1);
}

TEST(RadixTree, EmptyScopesAreForgotten) {
  Cache cache;
  for (int i = 0; i < 1000; ++i) cache.tree.match({"salt-" + std::to_string(i), counting(0, 5)});
  EXPECT_EQ(cache.tree.statistics().scopes, 0);
  EXPECT_EQ(cache.tree.statistics().nodes, 0);
  cache.expect_sound();
}

TEST(RadixTree, SlotsOfTokensAlreadyHeldComeBack) {
  Cache cache;
  Insertion first = cache.insert(counting(0, 20));
  EXPECT_EQ(first.already_held, 0);
  Insertion second = cache.insert(join(counting(0, 15), {100, 101}));
  EXPECT_EQ(second.already_held, 15);
  EXPECT_EQ(second.duplicates.length(), 15);
  EXPECT_EQ(second.extents.slice(0, 15), first.extents.slice(0, 15));
  EXPECT_EQ(cache.tree.held_tokens(), 22);
  cache.expect_sound();
}

TEST(RadixTree, ASequenceThatGrowsByOneTokenStaysOneNode) {
  Cache cache;
  SlotCursor cursor;
  Match match = cache.tree.match({"", counting(0, 1)});
  for (TokenId t = 0; t < 500; ++t) cache.tree.extend(match.pin, std::span(&t, 1), *cache.pool.allocate(1, cursor));
  EXPECT_EQ(match.pin.length(), 500);
  EXPECT_EQ(cache.tree.path(match.pin).size(), 1u);
  EXPECT_EQ(cache.tree.tokens(match.pin), counting(0, 500));
  EXPECT_EQ(cache.tree.extents(match.pin).length(), 500);
  cache.expect_sound();
}

TEST(RadixTree, GrowingDoesNotProtectTokensOthersDoNotUse) {
  Cache cache;
  Match a = cache.tree.match({"", counting(0, 1)});
  cache.tree.extend(a.pin, counting(0, 10), *cache.pool.allocate(10));
  PinnedPrefix b = a.pin.share();
  cache.tree.extend(a.pin, counting(10, 10), *cache.pool.allocate(10));
  a.pin.reset();
  EXPECT_EQ(b.length(), 10);
  EXPECT_EQ(cache.tree.evictable_tokens(), 10);
  EXPECT_EQ(cache.tree.evict_all(), 10);
  EXPECT_EQ(cache.tree.tokens(b), counting(0, 10));
  cache.expect_sound();
}

TEST(RadixTree, KnowsWhatOnlyOnePinHolds) {
  Cache cache;
  cache.insert(counting(0, 100));
  Match whole = cache.tree.match({"", counting(0, 100)});
  EXPECT_EQ(cache.tree.tokens_only_of(whole.pin), 100);
  Match part = cache.tree.match({"", counting(0, 60)});
  EXPECT_EQ(cache.tree.tokens_only_of(whole.pin), 40);
  EXPECT_EQ(cache.tree.tokens_only_of(part.pin), 0);
  const PinnedPrefix second = whole.pin.share();
  EXPECT_EQ(cache.tree.tokens_only_of(whole.pin), 0);
}

TEST(RadixTree, EvictionNeverTakesAPinnedPrefix) {
  Cache cache;
  cache.insert(counting(0, 100));
  Match match = cache.tree.match({"", counting(0, 60)});
  EXPECT_EQ(cache.tree.evict_all(), 40);
  EXPECT_EQ(cache.tree.evict_all(), 0);
  EXPECT_EQ(cache.held(counting(0, 100)), 60);
  match.pin.reset();
  EXPECT_EQ(cache.tree.evict_all(), 60);
  EXPECT_EQ(cache.pool.free_slots(), cache.pool.capacity());
  cache.expect_sound();
}

TEST(RadixTree, EvictsExactlyWhatIsWantedFromTheEndOfTheOldestLeaf) {
  Cache cache;
  cache.insert(counting(0, 100));
  cache.insert(counting(1000, 100));
  cache.tree.match({"", counting(0, 100)});
  EXPECT_EQ(cache.tree.evict(30), 30);
  EXPECT_EQ(cache.held(counting(1000, 100)), 70);
  EXPECT_EQ(cache.held(counting(0, 100)), 100);
  EXPECT_EQ(cache.tree.evict(80), 80);
  EXPECT_EQ(cache.held(counting(1000, 100)), 0);
  EXPECT_EQ(cache.held(counting(0, 100)), 90);
  EXPECT_EQ(cache.tree.evict(0), 0);
  EXPECT_EQ(cache.tree.evict(-3), 0);
  cache.expect_sound();
}

TEST(RadixTree, LeastFrequentlyUsedKeepsWhatIsHitOften) {
  Cache cache(4096, EvictionKind::lfu);
  cache.insert(counting(0, 10));
  cache.insert(counting(100, 10));
  for (int i = 0; i < 5; ++i) cache.tree.match({"", counting(0, 10)});
  cache.tree.match({"", counting(100, 10)});  // the latest use
  cache.tree.evict(10);
  EXPECT_EQ(cache.held(counting(0, 10)), 10);
  EXPECT_EQ(cache.held(counting(100, 10)), 0);
}

TEST(RadixTree, CostAwareEvictionKeepsTokensThatAreDearToCompute) {
  Cache cache(65536, EvictionKind::cost);
  cache.insert(counting(0, 30000));  // deep in a long prompt: much attention for each token
  cache.insert(counting(100000, 10));
  cache.tree.evict(10);
  EXPECT_EQ(cache.held(counting(0, 30000)), 30000);
  EXPECT_EQ(cache.held(counting(100000, 10)), 0);
}

TEST(RadixTree, PicturesAreNeverCutByAMatchOrAnEviction) {
  Cache cache;
  Tokens key = counting(0, 40);
  std::vector<TokenSpan> pictures = {{5, 10}, {20, 30}};
  cache.insert(key, "", pictures);
  auto length = [&](int limit, int multiple = 1) {
    return cache.tree.match({"", key, pictures}, {limit, multiple}).length;
  };
  EXPECT_EQ(length(7), 5);
  EXPECT_EQ(length(10), 10);
  EXPECT_EQ(length(25), 20);
  EXPECT_EQ(length(30), 30);
  EXPECT_EQ(length(27, 8), 16);
  EXPECT_EQ(length(9, 2), 4);
  EXPECT_EQ(cache.tree.evict(12), 20);
  EXPECT_EQ(cache.held(key), 20);
  cache.expect_sound();
}

TEST(RadixTree, StaleHandlesAreRecognised) {
  Cache cache;
  cache.insert(counting(0, 10));
  NodeHandle node = cache.tree.peek({"", counting(0, 10)}).node;
  EXPECT_TRUE(cache.tree.alive(node));
  EXPECT_EQ(cache.tree.extents(node).length(), 10);
  cache.tree.evict_all();
  EXPECT_FALSE(cache.tree.alive(node));
  cache.insert(counting(0, 10));
  EXPECT_FALSE(cache.tree.alive(node));
  EXPECT_TRUE(cache.tree.extents(node).empty());
}

TEST(RadixTree, BrokenRequirementsChangeNothing) {
  Cache cache;
  SlotAllocator elsewhere(100);
  PinnedPrefix none;
  Match match = cache.tree.match({"", counting(0, 1)});
  EXPECT_EQ(cache.tree.extend(none, counting(0, 5), *cache.pool.allocate(5)).duplicates.length(), 5);
  EXPECT_EQ(cache.tree.extend(match.pin, counting(0, 5), *cache.pool.allocate(4)).duplicates.length(), 4);
  EXPECT_EQ(cache.tree.extend(match.pin, counting(0, 5), *elsewhere.allocate(5)).duplicates.length(), 5);
  EXPECT_EQ(cache.tree.held_tokens(), 0);
  EXPECT_EQ(cache.tree.statistics().faults, 3);
  EXPECT_EQ(elsewhere.free_slots(), 100);
  cache.expect_sound();
}

TEST(RadixTree, WhatIsEvictedCanBeCopiedOutBefore) {
  struct Copies final : EvictionObserver {
    void evicting(const RadixTree& tree, NodeHandle node, int first) override {
      auto view = tree.view(node);
      taken.emplace_back(view.tokens.begin() + (first - view.begin), view.tokens.end());
      slots += tree.extents(node).length() - (first - view.begin);
    }
    std::vector<Tokens> taken;
    int slots = 0;
  };
  Cache cache;
  Copies copies;
  cache.tree.observe(&copies);
  cache.insert(counting(0, 10));
  cache.tree.evict(4);
  cache.tree.evict_all();
  EXPECT_EQ(copies.taken, (std::vector<Tokens>{counting(6, 4), counting(0, 6)}));
  EXPECT_EQ(copies.slots, 10);
}

TEST(RadixTree, AVeryDeepTreeIsBuiltWalkedAndTornDownWithoutRecursion) {
  Cache cache(40000);
  Tokens key = counting(0, 20000);
  {
    cache.insert(key);
    std::vector<PinnedPrefix> pins;
    for (int length = 1; length < 20000; length += 2) pins.push_back(cache.tree.match({"", key}, {length, 1}).pin);
    EXPECT_EQ(cache.tree.path(cache.tree.match({"", key}).pin).size(), 10001u);
    int nodes = 0;
    cache.tree.for_each([&](const RadixTree::NodeView&) { ++nodes; });
    EXPECT_EQ(nodes, 10001);
  }
  cache.expect_sound();
  EXPECT_EQ(cache.tree.evict_all(), 20000);
  EXPECT_EQ(cache.tree.statistics().nodes, 0);
  cache.expect_sound();
}

TEST(RadixTree, TheSlotsComeBackWhenTheTreeGoes) {
  SlotAllocator pool(1000);
  {
    RadixTree tree(pool);
    tree.insert({"", counting(0, 300)}, *pool.allocate(300));
    tree.match({"", counting(0, 100)});
    EXPECT_EQ(pool.free_slots(), 700);
  }
  EXPECT_EQ(pool.free_slots(), 1000);
  EXPECT_EQ(pool.faults(), 0);
}

}  // namespace
}  // namespace espalier::radix_tree_test
