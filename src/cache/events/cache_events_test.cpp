// What is told of the cache is what the cache holds: after every change, the blocks that were stored and not removed are
// those that a walk over tree or catalogue finds.
#include "cache/events/cache_events.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "testing/data.h"

namespace espalier {
namespace {

class Told {
 public:
  void take(CacheEvents& events) {
    for (const CacheEvent& event : events.take()) {
      auto& blocks = blocks_[event.tier];
      if (event.kind == CacheEvent::Kind::cleared) blocks_.clear();
      for (std::size_t i = 0; i < event.blocks.size(); ++i) {
        if (event.kind == CacheEvent::Kind::removed) {
          EXPECT_EQ(blocks.erase(event.blocks[i]), 1u) << "removed, but not stored";
          continue;
        }
        EXPECT_TRUE(blocks.insert(event.blocks[i]).second) << "stored twice";
      }
      if (event.kind == CacheEvent::Kind::stored) {
        EXPECT_EQ(event.tokens.size(), event.blocks.size() * kBlockTokens);
        const bool in_tree = event.parent && event.tier == CacheTier::memory;
        EXPECT_TRUE(!in_tree || blocks.contains(*event.parent)) << "its parent is not held";
      }
    }
  }
  const std::set<std::uint64_t>& of(CacheTier tier) { return blocks_[tier]; }

 private:
  std::map<CacheTier, std::set<std::uint64_t>> blocks_;
};

// All whole blocks of the tree.
std::set<std::uint64_t> held(const RadixTree& tree) {
  std::set<std::uint64_t> blocks;
  tree.for_each([&](const RadixTree::NodeView& leaf) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(leaf.end));
    for (auto view = leaf;; view = tree.view(view.parent)) {
      std::copy(view.tokens.begin(), view.tokens.end(), tokens.begin() + view.begin);
      if (view.begin == 0) break;
    }
    for (const std::uint64_t block : block_numbers(leaf.scope, tokens)) blocks.insert(block);
  });
  return blocks;
}

TEST(CacheEvents, TellWhatTheTreeHoldsAfterEveryChange) {
  std::mt19937 rng(testing::seed());
  SlotAllocator slots(4096);
  CacheEvents events;
  RadixTree tree(slots);
  tree.watcher = &events;
  Told told;
  for (int round = 0; round < 600; ++round) {
    std::vector<TokenId> tokens(1 + rng() % 90);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(rng() % 40 == 0);
    const std::string scope = rng() % 3 == 0 ? "another" : "";
    if (rng() % 4 == 0) tree.evict(static_cast<int>(rng() % 200));
    if (slots.free_slots() < static_cast<int>(tokens.size())) tree.evict(200);
    auto own = slots.allocate(static_cast<int>(tokens.size()));
    ASSERT_TRUE(own);
    tree.insert({scope, tokens}, *std::move(own));
    told.take(events);
    ASSERT_EQ(told.of(CacheTier::memory), held(tree)) << "round " << round;
  }
  tree.evict_all();
  told.take(events);
  EXPECT_TRUE(told.of(CacheTier::memory).empty());
}

TEST(CacheEvents, OfADiskTierTellWhatCanBeRead) {
  std::mt19937 rng(testing::seed());
  PrefixCatalogue catalogue;
  CacheEvents events;
  Told told;
  std::vector<FileId> files;
  std::vector<TokenId> text(40 * kBlockTokens);
  for (TokenId& token : text) token = static_cast<TokenId>(rng() % 3);
  for (int round = 0; round < 200; ++round) {
    if (round == 20) catalogue.watch(&events);
    if (rng() % 3 == 0 && !files.empty()) {
      const std::size_t at = rng() % files.size();
      catalogue.remove(files[at]);
      files.erase(files.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      PrefixCatalogue::File file;
      file.first_block = static_cast<int>(rng() % 20);
      file.blocks = 1 + static_cast<int>(rng() % 8);
      std::vector<TokenId> tokens(text.begin(), text.begin() + (file.first_block + file.blocks) * kBlockTokens);
      if (rng() % 3 == 0) tokens[rng() % tokens.size()] ^= 1;
      const auto id = catalogue.add("a", tokens, file);
      if (!id) continue;
      files.push_back(*id);
      if (rng() % 2 == 0) catalogue.finished(*id, 0, {});
    }
    const auto sound = catalogue.check();
    ASSERT_TRUE(sound.ok()) << sound.error().message;
    if (round < 20) continue;
    told.take(events);
  }
  for (const FileId file : files) catalogue.remove(file);
  told.take(events);
  EXPECT_TRUE(told.of(CacheTier::disk).empty());
}

TEST(CacheEvents, NumbersFollowFromTokensAndNameSpaceAlone) {
  const std::vector<TokenId> tokens(40, 7);
  const auto blocks = block_numbers("", tokens);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_NE(blocks[0], blocks[1]);
  EXPECT_EQ(block_numbers("", tokens), blocks);
  EXPECT_NE(block_numbers("salt", tokens), blocks);
  EXPECT_EQ(blocks[0], 0u + block_numbers("", std::span(tokens).first(16))[0]);
}

}  // namespace
}  // namespace espalier
