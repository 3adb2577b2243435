// The catalogue against a model that keeps whole prefixes in a map.
#include "cache/disk/prefix_catalogue.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "testing/data.h"

namespace espalier::prefix_catalogue_test {
namespace {

using Tokens = std::vector<TokenId>;

Tokens blocks(std::initializer_list<int> fills) {
  Tokens tokens;
  for (const int fill : fills) tokens.insert(tokens.end(), kBlockTokens, fill);
  return tokens;
}

PrefixCatalogue::File file(int first, int count, std::uint64_t bytes = 100) {
  PrefixCatalogue::File f;
  f.name = "f";
  f.bytes = bytes;
  f.first_block = first;
  f.blocks = count;
  f.checksums.resize(static_cast<std::size_t>(count));
  f.readable = true;
  return f;
}

int found(const PrefixCatalogue& c, std::string_view scope, const Tokens& tokens, int first = 0) {
  int count = 0;
  for (const auto& range : c.find(scope, tokens, first)) count += range.count;
  return count;
}

TEST(PrefixCatalogue, BlocksAreFoundAlongTheirOwnSequenceOnly) {
  PrefixCatalogue c;
  ASSERT_TRUE(c.add("a", blocks({1, 2, 3}), file(0, 3)));
  EXPECT_EQ(found(c, "a", blocks({1, 2, 3, 4})), 3);
  EXPECT_EQ(found(c, "a", blocks({1, 2, 4})), 2);
  EXPECT_EQ(found(c, "a", blocks({2, 3})), 0);
  EXPECT_EQ(found(c, "b", blocks({1, 2, 3})), 0);
  EXPECT_EQ(found(c, "a", blocks({1, 2, 3}), 1), 2);
  Tokens almost = blocks({1, 2, 3});
  almost[20] = 9;
  EXPECT_EQ(found(c, "a", almost), 1);
  EXPECT_EQ(found(c, "a", Tokens(almost.begin(), almost.begin() + 31)), 1) << "a block counts when it is whole";
  EXPECT_TRUE(c.check().ok());
}

TEST(PrefixCatalogue, ABlockBehindAGapIsFoundFromBehindTheGap) {
  PrefixCatalogue c;
  const auto end = c.add("", blocks({1, 2, 3, 4}), file(2, 2));
  EXPECT_EQ(found(c, "", blocks({1, 2, 3, 4})), 0);
  EXPECT_EQ(found(c, "", blocks({1, 2, 3, 4}), 2), 2);
  const auto start = c.add("", blocks({1, 2}), file(0, 2));
  EXPECT_EQ(found(c, "", blocks({1, 2, 3, 4})), 4);
  c.remove(*end);
  EXPECT_EQ(found(c, "", blocks({1, 2, 3, 4})), 2);
  c.remove(*start);
  EXPECT_EQ(c.blocks(), 0u);
  EXPECT_TRUE(c.check().ok());
}

TEST(PrefixCatalogue, AFileBeingWrittenIsHeldButNotFound) {
  PrefixCatalogue c;
  auto f = file(0, 2);
  f.readable = false;
  const auto id = c.add("", blocks({1, 2}), f);
  EXPECT_EQ(c.held("", blocks({1, 2, 3})), (std::vector<bool>{true, true}));
  EXPECT_EQ(found(c, "", blocks({1, 2})), 0);
  EXPECT_FALSE(c.victim()) << "it cannot be given up either";
  c.finished(*id, 4096, {1, 2});
  EXPECT_EQ(found(c, "", blocks({1, 2})), 2);
  EXPECT_EQ(c.victim(), id);
  EXPECT_FALSE(c.add("", blocks({1, 2}), file(0, 2))) << "nothing new in it";
}

TEST(PrefixCatalogue, EndsGoBeforeTheirBeginningsAndUsedFilesLast) {
  PrefixCatalogue c;
  const auto a0 = *c.add("", blocks({1}), file(0, 1)), a1 = *c.add("", blocks({1, 2}), file(1, 1));
  const auto b0 = *c.add("", blocks({5}), file(0, 1));
  EXPECT_EQ(c.victim(), a0) << "the oldest";
  c.touch("", blocks({1, 2}));
  EXPECT_EQ(c.victim(), b0);
  c.use(b0);
  EXPECT_EQ(c.victim(), a1) << "used together with its beginning, and deeper";
  c.unuse(b0);
  EXPECT_EQ(c.victim(), b0);
  c.remove(b0);
  EXPECT_FALSE(c.victim(c.now())) << "used at that time";
  EXPECT_EQ(c.victim(c.now() + 1), a1);
  EXPECT_TRUE(c.check().ok());
}

TEST(PrefixCatalogue, RandomOperationsAgreeWithASimpleModel) {
  std::mt19937_64 rng(testing::seed());
  const auto below = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  PrefixCatalogue c;
  struct Held {
    std::string scope;
    Tokens tokens;
    int first;
  };
  std::map<FileId, Held> model;
  const auto key = [&] {
    Tokens tokens;
    for (int b = 1 + below(6); b > 0; --b) tokens.insert(tokens.end(), kBlockTokens, below(3));
    if (below(3) == 0) tokens[static_cast<std::size_t>(below(static_cast<int>(tokens.size())))] = 7;
    return tokens;
  };
  // The file that holds a block, the oldest of several.
  const auto holder = [&](const std::string& scope, const Tokens& tokens, int block) -> FileId {
    const std::size_t end = static_cast<std::size_t>(block + 1) * kBlockTokens;
    for (const auto& [id, held] : model)
      if (held.scope == scope && block >= held.first && held.tokens.size() >= end &&
          std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end), held.tokens.begin()))
        return id;
    return 0;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string scope = below(4) == 0 ? "b" : "";
    const Tokens tokens = key();
    const int whole = static_cast<int>(tokens.size()) / kBlockTokens;
    if (below(2) == 0) {
      const int first = below(whole);
      bool all = true, any = false;
      for (int b = first; b < whole; ++b) (holder(scope, tokens, b) != 0 ? any : all) = holder(scope, tokens, b) != 0;
      if (any && !all) continue;  // the tier stores only what is missing
      const auto id = c.add(scope, tokens, file(first, whole - first));
      ASSERT_EQ(id.has_value(), !all);
      if (id) model[*id] = {scope, tokens, first};
    } else if (below(2) == 0 && !model.empty()) {
      const auto gone = std::next(model.begin(), below(static_cast<int>(model.size())));
      c.remove(gone->first);
      model.erase(gone);
    } else {
      c.touch(scope, tokens);
    }
    const int from = below(whole);
    int expected = 0;
    while (from + expected < whole && holder(scope, tokens, from + expected) != 0) ++expected;
    ASSERT_EQ(found(c, scope, tokens, from), expected) << "step " << i;
    ASSERT_EQ(c.files(), model.size());
    if (i % 50 == 0) {
      auto ok = c.check();
      ASSERT_TRUE(ok.ok()) << ok.error().message << " at step " << i;
    }
  }
}

}  // namespace
}  // namespace espalier::prefix_catalogue_test
