// Routers: their decisions against the written rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "bench/fleet/routers/hash_ring.h"
#include "bench/fleet/routers/length_buckets.h"
#include "bench/fleet/routers/prompt_tree.h"
#include "bench/fleet/routers/router.h"
#include "bench/load/random.h"
#include "testing/data.h"

namespace espalier::bench {
namespace {

using Tokens = std::vector<TokenId>;

Tokens run(TokenId first, int length) {
  Tokens tokens(static_cast<std::size_t>(length));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

RouterOptions with(RouterPolicy policy) {
  RouterOptions options;
  options.policy = policy;
  options.seed = testing::seed();
  return options;
}

// --- the tree ---

TEST(PromptTree, AMatchEndsAtAnyTokenAndBelongsToWhoWasSentItFirst) {
  PromptTree tree(3);
  EXPECT_EQ(tree.find(run(0, 5)).server, -1);
  tree.add(run(0, 10), 1);
  tree.add(joined(run(0, 6), run(50, 4)), 2);
  const auto whole = tree.find(run(0, 10));
  EXPECT_EQ(whole.length, 10);
  EXPECT_EQ(whole.server, 1);
  const auto other = tree.find(joined(run(0, 6), run(50, 9)));
  EXPECT_EQ(other.length, 10);
  EXPECT_EQ(other.server, 2);
  const auto shared = tree.find(joined(run(0, 6), run(90, 3)));
  EXPECT_EQ(shared.length, 6);
  EXPECT_EQ(shared.server, 1);  // both have it
  EXPECT_EQ(tree.find(run(3, 4)).length, 0);
}

TEST(PromptTree, SizesAreDistinctTokensOfEachServer) {
  PromptTree tree(2);
  tree.add(run(0, 10), 0);
  tree.add(run(0, 7), 0);
  EXPECT_EQ(tree.sizes()[0], 10);
  tree.add(run(0, 7), 1);
  EXPECT_EQ(tree.sizes()[1], 7);
  tree.add(joined(run(0, 3), run(40, 5)), 1);
  EXPECT_EQ(tree.sizes()[1], 12);
  EXPECT_EQ(tree.sizes()[0], 10);
}

TEST(PromptTree, TheEndsThatWereUsedLongestAgoLeaveFirstAndOnlyOfWhoHasTooMuch) {
  PromptTree tree(2);
  tree.add(run(0, 10), 0);
  tree.add(run(100, 10), 0);
  tree.add(run(200, 10), 0);
  tree.add(run(0, 10), 1);
  tree.add(run(0, 10), 0);  // used again
  tree.evict(20);
  EXPECT_EQ(tree.sizes()[0], 20);
  EXPECT_EQ(tree.sizes()[1], 10);
  EXPECT_EQ(tree.find(run(100, 10)).length, 0);
  EXPECT_EQ(tree.find(run(0, 10)).server, 0);
  tree.evict(0);
  EXPECT_EQ(tree.sizes()[0] + tree.sizes()[1], 0);
  EXPECT_EQ(tree.nodes(), 0u);
}

// A slow copy of the rules: all prompts of each server, in the order of their sending.
TEST(PromptTree, FindsWhatAListOfAllPromptsFinds) {
  Random random(testing::seed());
  PromptTree tree(5);
  std::vector<std::pair<Tokens, int>> sent;
  for (int i = 0; i < 600; ++i) {
    Tokens prompt;
    for (std::uint64_t n = 1 + random.below(12); n > 0; --n) prompt.push_back(static_cast<TokenId>(random.below(2)));
    int longest = 0;
    std::vector<bool> has(5, false);
    for (const auto& [other, server] : sent) {
      const auto most = std::min(prompt.size(), other.size());
      const auto same = static_cast<int>(
          std::mismatch(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(most), other.begin()).first -
          prompt.begin());
      if (same > longest) longest = same, has.assign(5, false);
      if (same == longest) has[static_cast<std::size_t>(server)] = true;
    }
    const auto found = tree.find(prompt);
    EXPECT_EQ(found.length, longest) << "seed " << testing::seed();
    if (longest > 0) {
      EXPECT_TRUE(has[static_cast<std::size_t>(found.server)]) << "seed " << testing::seed();
    }
    sent.emplace_back(std::move(prompt), static_cast<int>(random.below(5)));
    tree.add(sent.back().first, sent.back().second);
  }
}

// --- policies ---

TEST(Routers, RoundRobinTakesTurnsWhateverTheLoads) {
  const auto router = make_router(with(RouterPolicy::round_robin), 3);
  const std::vector<int> loads = {9, 0, 4};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(router->choose({}, loads), i % 3);
}

TEST(Routers, PowerOfTwoNeverTakesTheOneWithMost) {
  const auto router = make_router(with(RouterPolicy::power_of_two), 4);
  const std::vector<int> loads = {3, 9, 1, 2};
  std::map<int, int> times;
  for (int i = 0; i < 3000; ++i) ++times[router->choose({}, loads)];
  EXPECT_EQ(times[1], 0);
  EXPECT_GT(times[2], times[3]);  // half of all pairs, a third of them, a sixth
  EXPECT_GT(times[3], times[0]);
  const std::vector<int> one = {5};
  EXPECT_EQ(router->choose({}, one), 0);
}

TEST(Routers, RandomReachesAllAboutEquallyOften) {
  const auto router = make_router(with(RouterPolicy::random), 3);
  const std::vector<int> loads = {100, 0, 0};
  std::map<int, int> times;
  for (int i = 0; i < 3000; ++i) ++times[router->choose({}, loads)];
  for (int s = 0; s < 3; ++s) EXPECT_NEAR(times[s], 1000, 200);
}

class CacheAwareRouter : public ::testing::Test {
 protected:
  RouterOptions options = with(RouterPolicy::cache_aware);
  std::vector<int> even = {0, 0, 0};
};

TEST_F(CacheAwareRouter, WhatIsNewGoesToTheOneWithLeastToDo) {
  const auto router = make_router(options, 3);
  const std::vector<int> loads = {2, 1, 1};
  EXPECT_EQ(router->choose({run(0, 10), 0}, loads), 1);
}

TEST_F(CacheAwareRouter, MoreThanTheThresholdOfThePromptGoesWhereItWasSent) {
  options.cache_threshold = 0.5;
  const auto router = make_router(options, 3);
  const std::vector<int> second_is_free = {1, 0, 1};
  ASSERT_EQ(router->choose({run(0, 10), 0}, second_is_free), 1);
  // Exactly half is not more than half.
  EXPECT_EQ(router->choose({joined(run(0, 10), run(100, 10)), 0}, even), 0);
  EXPECT_EQ(router->choose({joined(run(0, 10), run(200, 9)), 0}, even), 1);
}

TEST_F(CacheAwareRouter, UnevenLoadsGoToTheOneWithLeastOnlyWhenBothLimitsArePassed) {
  options.balance_abs = 4;
  options.balance_rel = 2;
  const auto router = make_router(options, 3);
  ASSERT_EQ(router->choose({run(0, 10), 0}, even), 0);
  const auto chosen = [&](std::vector<int> loads) { return router->choose({run(0, 10), 0}, loads); };
  EXPECT_EQ(chosen({4, 0, 1}), 0);   // 4 apart is not more than 4
  EXPECT_EQ(chosen({16, 8, 9}), 0);  // 8 apart, but 16 is not more than twice 8
  EXPECT_EQ(chosen({17, 9, 8}), 2);
  // And the tree has learnt of it: of the two that have the prompt the first sent to is asked.
  EXPECT_EQ(chosen({0, 0, 0}), 0);
}

TEST_F(CacheAwareRouter, EarlyVersionsFillTheSmallestTreeInstead) {
  options.smallest_tree = true;
  const auto router = make_router(options, 2);
  const std::vector<int> loads = {0, 3};
  EXPECT_EQ(router->choose({run(0, 10), 0}, loads), 0);
  EXPECT_EQ(router->choose({run(50, 4), 0}, loads), 1);
  EXPECT_EQ(router->choose({run(80, 4), 0}, loads), 1);  // 4 against 10
  EXPECT_EQ(router->choose({run(110, 4), 0}, loads), 1);
  EXPECT_EQ(router->choose({run(140, 4), 0}, loads), 0);
}

TEST_F(CacheAwareRouter, ForgetsEveryIntervalWhatIsTooMuch) {
  options.tree_tokens = 10;
  options.eviction_interval = 60;
  const auto router = make_router(options, 3);
  const std::vector<int> third_is_free = {1, 1, 0};
  router->pass_time(0);
  ASSERT_EQ(router->choose({run(0, 10), 0}, third_is_free), 2);
  ASSERT_EQ(router->choose({run(100, 10), 0}, third_is_free), 2);
  router->pass_time(59);
  EXPECT_EQ(router->choose({run(0, 10), 0}, even), 2);
  router->pass_time(60);  // the second prompt is the older one now
  EXPECT_EQ(router->choose({run(0, 10), 0}, even), 2);
  EXPECT_EQ(router->choose({run(100, 10), 0}, even), 0);
}

TEST(Routers, PrefixHashKeepsEqualBeginningsTogetherUntilTheirServerIsTooBusy) {
  RouterOptions options = with(RouterPolicy::prefix_hash);
  options.prefix_tokens = 8;
  const auto router = make_router(options, 4);
  std::vector<int> loads(4, 0);
  const int home = router->choose({joined(run(7, 8), run(100, 5)), 0}, loads);
  EXPECT_EQ(router->choose({joined(run(7, 8), run(300, 50)), 0}, loads), home);
  // 1.25 x (12 + 1) / 4 = 4.06
  loads = {3, 3, 3, 3};
  loads[static_cast<std::size_t>(home)] = 3;
  EXPECT_EQ(router->choose({run(7, 8), 0}, loads), home);
  const int other = (home + 1) % 4;
  loads = {2, 2, 2, 2};
  loads[static_cast<std::size_t>(home)] = 5;
  loads[static_cast<std::size_t>(other)] = 1;  // 1.25 x 11 / 4 = 3.4
  EXPECT_EQ(router->choose({run(7, 8), 0}, loads), other);
}

TEST(Routers, ConsistentHashKeepsAClientWhereItIs) {
  const auto router = make_router(with(RouterPolicy::consistent_hash), 5);
  const std::vector<int> loads(5, 0), others = {90, 90, 90, 90, 90};
  std::map<int, int> times;
  for (std::uint64_t client = 0; client < 500; ++client) {
    const int home = router->choose({{}, client}, loads);
    EXPECT_EQ(router->choose({run(3, 4), client}, others), home);
    ++times[home];
  }
  EXPECT_EQ(times.size(), 5u);
}

TEST(Routers, ManualKeepsAClientWhereItsFirstRequestWent) {
  const auto router = make_router(with(RouterPolicy::manual), 5);
  const std::vector<int> loads(5, 0), others = {90, 90, 90, 90, 90};
  std::map<int, int> times;
  for (std::uint64_t client = 0; client < 500; ++client) {
    const int home = router->choose({{}, client}, loads);
    EXPECT_EQ(router->choose({run(3, 4), client}, others), home);
    ++times[home];
  }
  for (int s = 0; s < 5; ++s) EXPECT_NEAR(times[s], 100, 60) << "seed " << testing::seed();
}

TEST(Routers, ManualCanAssignByLoadAndForgetsWhoIsIdle) {
  RouterOptions options = with(RouterPolicy::manual);
  options.assign_least = true;
  options.eviction_interval = 10;
  options.max_idle = 30;
  const auto router = make_router(options, 3);
  const std::vector<int> loads = {4, 1, 1}, first_is_free = {0, 1, 1};
  std::map<int, int> times;
  router->pass_time(0);
  for (std::uint64_t client = 1; client < 200; ++client) ++times[router->choose({{}, client}, loads)];
  EXPECT_EQ(times[0], 0);
  EXPECT_GT(times[1], 50) << "seed " << testing::seed();
  EXPECT_GT(times[2], 50) << "seed " << testing::seed();
  router->pass_time(29);
  EXPECT_NE(router->choose({{}, 7}, first_is_free), 0);
  router->pass_time(58);  // 29 s after that
  EXPECT_NE(router->choose({{}, 7}, first_is_free), 0);
  EXPECT_EQ(router->choose({{}, 8}, first_is_free), 0);
}

TEST(LengthBuckets, DivideFirstARangeAndThenTheCharactersThatWereSent) {
  LengthBuckets buckets(3, 5, 1000, 1.5);
  using Ends = std::vector<std::int64_t>;
  EXPECT_EQ(buckets.ends(), (Ends{1364, 2729}));
  EXPECT_EQ(buckets.choose(0), 0);
  EXPECT_EQ(buckets.choose(1364), 0);
  EXPECT_EQ(buckets.choose(1365), 1);
  EXPECT_EQ(buckets.choose(1'000'000), 2);
  buckets.pass_time(1);
  for (const int length : {26, 5, 24, 10, 20, 15}) buckets.sent(length, 0);  // 100: a third is 33
  buckets.pass_time(5.9);
  EXPECT_EQ(buckets.ends(), (Ends{1364, 2729}));
  buckets.pass_time(6);
  EXPECT_EQ(buckets.ends(), (Ends{20, 26}));  // 5 + 10 + 15 + 20, 24 + 26
  // Less than twice as much: they stay.
  buckets.pass_time(10);
  for (const int length : {50, 60, 70}) buckets.sent(length, 0);
  buckets.pass_time(11);
  EXPECT_EQ(buckets.ends(), (Ends{20, 26}));
  // The first six have left: 180, then 480. Where no prompt is left for a part it is as long as the part.
  buckets.pass_time(14);
  buckets.sent(300, 0);
  buckets.pass_time(16);
  EXPECT_EQ(buckets.ends(), (Ends{70, 300}));
}

TEST(LengthBuckets, OfEqualLengthsEachServerGetsARangeAsLongAsItsPart) {
  LengthBuckets buckets(3, 5, 1000, 1.5);
  buckets.pass_time(0);
  for (const int length : {33, 34, 34}) buckets.sent(length, 0);
  buckets.pass_time(5);
  EXPECT_EQ(buckets.ends(), (std::vector<std::int64_t>{33, 67}));
}

TEST(LengthBuckets, UnevenLoadsGoToTheOneThatWasSentLeast) {
  LengthBuckets buckets(2, 5, 64, 1.5);
  buckets.pass_time(0);
  buckets.sent(64, 0);
  EXPECT_EQ(buckets.choose(10), 0);  // 64 apart is not more than 64
  buckets.sent(1, 0);
  EXPECT_EQ(buckets.choose(10), 1);
  buckets.sent(1000, 1);
  EXPECT_EQ(buckets.choose(4000), 0);
  buckets.pass_time(6);
  buckets.sent(1, 0);  // what was sent before has left
  EXPECT_EQ(buckets.choose(4000), 1);
}

TEST(HashRing, ANewServerTakesOnlyWhatBecomesItsOwn) {
  const HashRing four(4), five(5);
  int moved = 0;
  Random random(testing::seed());
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t hash = random.next();
    if (four.of(hash) == five.of(hash)) continue;
    EXPECT_EQ(five.of(hash), 4);
    ++moved;
  }
  EXPECT_NEAR(moved, 400, 150);
}

}  // namespace
}  // namespace espalier::bench
