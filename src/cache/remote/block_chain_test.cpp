#include "cache/remote/block_chain.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "cache/remote/block_value.h"
#include "cache/testing/test_tokens.h"
#include "testing/data.h"

namespace espalier::block_chain_test {
namespace {

using testing::counting;
using testing::join;
using testing::Tokens;

std::vector<std::byte> some_bytes(std::size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  return bytes;
}

TEST(BlockChain, NamesTheSameBlocksOfTextsThatBeginAlikeAndGoOnDifferently) {
  const BlockNamer namer("model", "");
  const BlockChain a = namer.chain("", join(counting(1, 40), counting(500, 33)));
  const BlockChain b = namer.chain("", join(counting(1, 40), counting(900, 33)));
  ASSERT_EQ(a.blocks(), 4) << "whole ones alone";
  EXPECT_EQ(a.names[0], b.names[0]);
  EXPECT_EQ(a.names[1], b.names[1]);
  EXPECT_NE(a.names[2], b.names[2]);
  EXPECT_NE(a.names[3], b.names[3]) << "the same tokens behind others";
}

TEST(BlockChain, IsAnotherForEveryModelSecretAndScope) {
  std::set<BlockName> names;
  const Tokens tokens = counting(1, 16);
  for (const char* model : {"", "m", "n"})
    for (const char* secret : {"", "s", "st"})
      for (const char* scope : {"", "s", "t", "st", "tt"})
        names.insert(BlockNamer(model, secret).chain(scope, tokens).names[0]);
  EXPECT_EQ(names.size(), 3u * 3u * 5u) << "a secret's end is no scope's beginning";
}

TEST(BlockChain, IsTheSameWhateverWasKnownOfItBefore) {
  std::mt19937_64 rng(testing::seed());
  const BlockNamer namer("model", "secret");
  for (int i = 0; i < 200; ++i) {
    Tokens tokens = counting(static_cast<TokenId>(rng() % 3), static_cast<int>(rng() % 200));
    const BlockChain known = namer.chain(i % 3 == 0 ? "other" : "scope", tokens);
    if (!tokens.empty()) tokens.resize(rng() % tokens.size());
    tokens = join(std::move(tokens), counting(static_cast<TokenId>(rng() % 300), static_cast<int>(rng() % 100)));
    const BlockChain plain = namer.chain("scope", tokens), again = namer.chain("scope", tokens, &known);
    EXPECT_EQ(plain.names, again.names);
    EXPECT_EQ(plain.root, again.root);
    EXPECT_EQ(plain.tokens, again.tokens);
  }
}

TEST(BlockValue, GivesBackWhatWasPutIntoIt) {
  const BlockNamer namer("model", "");
  const BlockChain chain = namer.chain("scope", counting(7, 48));
  const auto data = some_bytes(777, 1);
  const BlockHeader header = block_header(namer.model(), chain, 2, data);
  std::vector<std::byte> value(header.begin(), header.end());
  value.insert(value.end(), data.begin(), data.end());
  const auto read = block_data(namer.model(), chain, 2, value, data.size());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(std::ranges::equal(*read, data));
}

TEST(BlockValue, RefusesEveryChangedByteAndEveryOtherPlace) {
  const BlockNamer namer("model", ""), other("another model", "");
  const BlockChain chain = namer.chain("scope", counting(7, 48));
  const auto data = some_bytes(99, 2);
  const BlockHeader header = block_header(namer.model(), chain, 1, data);
  std::vector<std::byte> value(header.begin(), header.end());
  value.insert(value.end(), data.begin(), data.end());
  ASSERT_TRUE(block_data(namer.model(), chain, 1, value, data.size()).ok());
  for (std::size_t i = 0; i < value.size(); ++i) {
    auto changed = value;
    changed[i] ^= std::byte{0x10};
    EXPECT_FALSE(block_data(namer.model(), chain, 1, changed, data.size()).ok()) << "byte " << i;
  }
  for (std::size_t length = 0; length < value.size(); ++length)
    EXPECT_FALSE(block_data(namer.model(), chain, 1, std::span(value).first(length), data.size()).ok()) << length;
  value.push_back({});
  EXPECT_FALSE(block_data(namer.model(), chain, 1, value, data.size()).ok()) << "something behind it";
  value.pop_back();
  EXPECT_FALSE(block_data(other.model(), chain, 1, value, data.size()).ok()) << "another model's";
  EXPECT_FALSE(block_data(namer.model(), chain, 0, value, data.size()).ok()) << "another block's";
  EXPECT_FALSE(block_data(namer.model(), namer.chain("tenant", chain.tokens), 1, value, data.size()).ok());
  BlockChain same_names = chain;  // as if two texts had the same hash
  same_names.tokens[20] = 12345;
  EXPECT_FALSE(block_data(namer.model(), same_names, 1, value, data.size()).ok()) << "other tokens under the same name";
}

}  // namespace
}  // namespace espalier::block_chain_test
