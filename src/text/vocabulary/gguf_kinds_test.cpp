// GGUF vocabularies of the kinds that few files have.
#include <gtest/gtest.h>

#include "text/tokenizer/tokenizer.h"
#include "text/vocabulary/gguf_vocabulary.h"

namespace espalier {
namespace {

using Ids = std::vector<TokenId>;

TEST(GgufKinds, WordPiecesAreMarkedWhereWordsBegin) {
  GgufVocabulary v;
  v.model = "bert";
  v.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁play", "ing", "▁now", "▁.", "▁ü", "▁u"};
  v.types = {3, 2, 3, 3, 1, 1, 1, 1, 1, 1};
  v.bos = 2;
  v.sep = 3;
  v.unk = 1;
  const auto opened = Tokenizer::from_gguf(v);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode("Playing NOW. xyz Ü"), (Ids{2, 4, 5, 6, 7, 1, 9, 3}));
  EXPECT_EQ((*opened)->decode(Ids{2, 4, 5, 6, 7, 3}, {.skip_special = true}), "playing now.");
  v.lowercase = false;
  EXPECT_EQ(*(*Tokenizer::from_gguf(v))->encode("playing ü Now"), (Ids{2, 4, 5, 8, 1, 3}));
  v.unk.reset();
  EXPECT_EQ(Tokenizer::from_gguf(v).error().field, "tokenizer.ggml.unknown_token_id");
}

TEST(GgufKinds, RwkvTakesTheLongestTokenAndSpellsBytes) {
  GgufVocabulary v;
  v.model = "rwkv";
  v.tokens = {"<s>", "a", "ab", "abc", "\\n", "\\t\\x20", "\\xc3", "\\xa9", "\\\\", "b", " "};
  v.types = {3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  v.eos = 0;
  const auto opened = Tokenizer::from_gguf(v);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode("abcab\n\t é\\b"), (Ids{3, 2, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ((*opened)->decode(Ids{3, 2, 4, 5, 6, 7, 8, 9}), "abcab\n\t é\\b");
  EXPECT_EQ((*opened)->eos(), 0);
}

TEST(GgufKinds, PlamoTakesTheCutOfTheBestSum) {
  GgufVocabulary v;
  v.model = "plamo2";
  v.tokens = {"<|plamo:unk|>", "<|plamo:bos|>", "a", "b", "ab", "aba", "ba", "日本"};
  v.scores = {0, 0, -1, -2, -2.5f, -5, -2.9f, -3};
  v.types = {2, 3, 1, 1, 1, 1, 1, 1};
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char hex[] = "0123456789ABCDEF";
    bytes.push_back(std::string("<0x") + hex[byte / 16] + hex[byte % 16] + ">");
  }
  for (const std::string& byte : bytes) {
    v.tokens.push_back(byte);
    v.scores.push_back(0);
    v.types.push_back(6);
  }
  const auto opened = Tokenizer::from_gguf(v);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode("aba"), (Ids{4, 2}));  // -3.5; the others have -3.9, -5 and -4
  EXPECT_EQ(*(*opened)->encode("日本é"), (Ids{7, 8 + 0xc3, 8 + 0xa9}));
  EXPECT_EQ((*opened)->decode(Ids{7, 8 + 0xc3, 8 + 0xa9}), "日本é");
  v.tokens.pop_back(), v.scores.pop_back(), v.types.pop_back();
  EXPECT_NE(Tokenizer::from_gguf(v).error().message.find("<0xFF>"), std::string::npos);
}

TEST(GgufKinds, WordsOfAWhitespaceVocabularyAreCutAtSpaces) {
  GgufVocabulary v;
  v.model = "whitespace";
  v.tokens = {"<unk>", "a", "b", "ab", "日", "本", "日本"};
  v.types = {2, 1, 1, 1, 1, 1, 1};
  v.merges = {"a b", "日 本"};
  v.unk = 0;
  v.eos.reset();
  const auto opened = Tokenizer::from_gguf(v);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode(" ab  日本 ba"), (Ids{3, 6, 2, 1}));
}

TEST(GgufKinds, UnigramsTakeTheMostLikelyCut) {
  GgufVocabulary v;
  v.model = "t5";
  v.tokens = {"<pad>", "</s>", "<unk>", "▁", "▁a", "b", "ab", "▁ab"};
  v.scores = {0, 0, 0, -2, -3, -4, -9, -6};
  v.types = {3, 3, 2, 1, 1, 1, 1, 1};
  v.unk = 2;
  v.eos = 1;
  const auto opened = Tokenizer::from_gguf(v);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode("ab a"), (Ids{7, 4, 1}));
  EXPECT_EQ((*opened)->decode(Ids{7, 4, 1}, {.skip_special = true}), "ab a");
}

TEST(GgufKinds, Gemma4MergesCharactersWithinLines) {
  GgufVocabulary v;
  v.model = "gemma4";
  v.pre = "gemma4";
  v.tokens = {"<unk>", "<bos>", "a", "▁", "▁a", "\n", "<0xC3>", "<0xA9>"};
  v.types = {2, 3, 1, 1, 1, 1, 6, 6};
  v.merges = {"▁ a"};
  v.unk = 0;
  v.bos = 1;
  const auto opened = Tokenizer::from_gguf(v);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode("a a\né"), (Ids{1, 2, 4, 5, 6, 7}));
  EXPECT_EQ((*opened)->decode(Ids{2, 4, 5, 6, 7}), "a a\né");
}

}  // namespace
}  // namespace espalier
