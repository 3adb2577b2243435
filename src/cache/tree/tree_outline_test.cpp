// What is told of the tree, beside the tree itself.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "cache/testing/test_tokens.h"
#include "cache/tree/radix_tree.h"
#include "testing/data.h"

namespace espalier::tree_outline_test {
namespace {

using testing::counting;
using testing::join;
using testing::Tokens;

struct Cache {
  explicit Cache(int capacity = 4096) : pool(capacity), tree(pool) {}
  void insert(const Tokens& tokens, std::string_view scope = "") {
    auto slots = pool.allocate(static_cast<int>(tokens.size()));
    if (!slots) {
      tree.evict(static_cast<int>(tokens.size()));
      slots = pool.allocate(static_cast<int>(tokens.size()));
    }
    ASSERT_TRUE(slots);
    tree.insert({scope, tokens}, std::move(*slots));
  }
  SlotAllocator pool;
  RadixTree tree;
};

Tokens tokens_of(const CacheOutline& outline, const CacheOutline::Node& node) {
  const auto first = outline.tokens.begin() + node.first_token;
  return {first, first + node.tokens};
}

TEST(CacheOutline, HasEveryNodeOfTheTreeWithItsTokensAndUse) {
  std::mt19937_64 rng(testing::seed());
  Cache cache(600);
  for (int i = 0; i < 300; ++i) {
    Tokens tokens(1 + rng() % 40);
    for (TokenId& token : tokens) token = static_cast<TokenId>(rng() % 3);
    cache.insert(tokens, std::string(1, static_cast<char>('a' + rng() % 3)));
  }
  const CacheOutline outline = outline_of(cache.tree, {.nodes = 10000, .tokens_of_node = 1000});
  EXPECT_FALSE(outline.more) << "seed " << testing::seed();
  std::map<std::uint32_t, const CacheOutline::Node*> told;
  for (std::size_t i = 0; i < outline.nodes.size(); ++i) {
    EXPECT_TRUE(told.emplace(outline.nodes[i].index, &outline.nodes[i]).second);
    EXPECT_LT(outline.nodes[i].parent, static_cast<int>(i)) << "a parent stands before its children";
  }
  std::size_t seen = 0;
  cache.tree.for_each([&](const RadixTree::NodeView& view) {
    ++seen;
    ASSERT_TRUE(told.contains(view.node.index)) << "seed " << testing::seed();
    const CacheOutline::Node& node = *told[view.node.index];
    EXPECT_EQ(node.generation, view.node.generation);
    EXPECT_EQ(node.begin, view.begin);
    EXPECT_EQ(node.end, view.end);
    EXPECT_EQ(node.hits, view.use.hits);
    EXPECT_EQ(node.last_use, view.use.last_use);
    EXPECT_EQ(node.pinned, view.pinned);
    EXPECT_EQ(node.leaf, view.leaf);
    EXPECT_FALSE(node.more);
    EXPECT_EQ(outline.scopes[static_cast<std::size_t>(node.scope)], view.scope);
    EXPECT_EQ(tokens_of(outline, node), Tokens(view.tokens.begin(), view.tokens.end()));
    if (view.begin > 0)
      EXPECT_EQ(outline.nodes[static_cast<std::size_t>(node.parent)].index, view.parent.index);
    else
      EXPECT_EQ(node.parent, -1);
  });
  EXPECT_EQ(seen, outline.nodes.size());
  EXPECT_EQ(outline.held_nodes, static_cast<std::int64_t>(seen));
  EXPECT_EQ(outline.held_tokens, cache.tree.held_tokens());
  EXPECT_GT(outline.evicted_tokens, 0) << "the pool was too small for all of them";
}

TEST(CacheOutline, ALimitLeavesOutWhatIsDeeperAndOlderAndSaysWhere) {
  Cache cache;
  for (int i = 0; i < 10; ++i) cache.insert(join(counting(0, 20), join(counting(100 + i, 5), counting(200, 5))));
  cache.insert(join(counting(0, 20), join(counting(109, 5), counting(300, 5))));  // parts the newest
  const CacheOutline whole = outline_of(cache.tree, {});
  EXPECT_EQ(whole.nodes.size(), 13u);
  EXPECT_FALSE(whole.more);

  const CacheOutline few = outline_of(cache.tree, {.nodes = 4});
  EXPECT_EQ(few.nodes.size(), 4u);
  EXPECT_TRUE(few.more);
  EXPECT_TRUE(few.nodes[0].more) << "of its ten children three are told";
  EXPECT_EQ(few.held_nodes, 13);

  const CacheOutline flat = outline_of(cache.tree, {.depth = 2});
  EXPECT_EQ(flat.nodes.size(), 11u);
  std::size_t cut = 0;
  for (const auto& node : flat.nodes) cut += node.more;
  EXPECT_EQ(cut, 1u) << "one of the ten goes on";
  EXPECT_TRUE(outline_of(cache.tree, {.nodes = 0}).nodes.empty());
  EXPECT_TRUE(outline_of(cache.tree, {.nodes = 0}).more);
}

TEST(CacheOutline, TokensAreBoundedOfEachNodeAndOfAll) {
  Cache cache;
  for (int i = 0; i < 20; ++i) cache.insert(counting(1000 * i, 100));
  const CacheOutline outline = outline_of(cache.tree, {.tokens_of_node = 30, .tokens = 100});
  EXPECT_EQ(outline.nodes.size(), 20u);
  EXPECT_EQ(outline.tokens.size(), 100u);
  EXPECT_EQ(outline.nodes[0].tokens, 30);
  EXPECT_EQ(tokens_of(outline, outline.nodes[0]), counting(outline.tokens[0], 30));
  EXPECT_EQ(outline.nodes[3].tokens, 10);
  EXPECT_EQ(outline.nodes[4].tokens, 0);
}

TEST(CacheOutline, ShowsWhatIsInUseAndWhatWasUsed) {
  Cache cache;
  cache.insert(counting(0, 50));
  cache.insert(join(counting(0, 30), counting(500, 20)));
  const Match match = cache.tree.match({"", counting(0, 50)});
  const CacheOutline outline = outline_of(cache.tree, {});
  ASSERT_EQ(outline.nodes.size(), 3u);
  std::map<int, bool> pinned;  // by first token
  for (const auto& node : outline.nodes) pinned[tokens_of(outline, node).front()] = node.pinned;
  EXPECT_EQ(pinned, (std::map<int, bool>{{0, true}, {30, true}, {500, false}}));
  EXPECT_GE(outline.nodes[0].hits, 1u);
  EXPECT_EQ(outline.pinned_tokens, 50);
  EXPECT_EQ(outline.held_tokens, 70);
}

}  // namespace
}  // namespace espalier::tree_outline_test
