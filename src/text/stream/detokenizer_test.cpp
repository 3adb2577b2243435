#include "text/stream/detokenizer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <span>

#include "testing/golden_name.h"
#include "text/tokenizer/golden_tokenizers.h"
#include "text/utf8.h"

namespace espalier {
namespace {

using Ids = std::vector<TokenId>;

class Streaming : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tokenizer_ = testing::open_golden(GetParam());
    if (!tokenizer_) GTEST_SKIP() << "left out: " << GetParam() << " is not beside the checkout";
  }

  // A run of byte tokens that is not UTF-8 as a whole may be shown differently (the contract says so).
  bool has_broken_run(const Ids& ids) const {
    std::string run;
    for (const TokenId id : ids) {
      if (tokenizer_->is_byte(id)) {
        run += tokenizer_->token_bytes(id);
      } else if (tokenizer_->contains(id)) {
        if (!is_utf8(run)) return true;
        run.clear();
      }
    }
    return !is_utf8(run);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_P(Streaming, PiecesOfRandomIdsAreWholeCharactersAndMakeTheWholeText) {
  std::mt19937_64 random(testing::seed());
  for (int n = 0; n < 2'000; ++n) {
    Ids ids(random() % 40);
    const bool bytes_only = n % 3 == 0;
    for (TokenId& id : ids)
      id = static_cast<TokenId>(random() % static_cast<std::uint64_t>(bytes_only ? 300 : tokenizer_->size() + 3));
    const DecodeOptions options{.skip_special = n % 2 == 0};
    IncrementalDetokenizer stream(*tokenizer_, options);
    std::string all;
    for (const TokenId id : ids) {
      const std::string piece = stream.push(id);
      ASSERT_TRUE(is_utf8(piece));
      all += piece;
    }
    const std::string rest = stream.finish();
    ASSERT_TRUE(is_utf8(rest));
    if (!has_broken_run(ids)) {
      ASSERT_EQ(all + rest, tokenizer_->decode(ids, options)) << Json(ids).dump();
    }
  }
}

TEST_P(Streaming, NothingIsHeldForLongerThanItMust) {
  // Tokens that decode to U+FFFD for ever: a stream of them must still flow.
  std::optional<TokenId> broken;
  for (TokenId id = 0; id < tokenizer_->size() && !broken; ++id) {
    const Ids three = {id, id, id};
    if (tokenizer_->decode(three) == "\ufffd\ufffd\ufffd") broken = id;
  }
  if (!broken) return;
  IncrementalDetokenizer stream(*tokenizer_);
  std::size_t shown = 0;
  for (int i = 0; i < 100; ++i) shown += stream.push(*broken).size();
  EXPECT_GT(shown, 80u * 3);
}

TEST_P(Streaming, BehindOtherTokensItIsWhatDecodingBothAdds) {
  std::mt19937_64 random(testing::seed());
  int compared = 0;
  for (int n = 0; n < 2'000; ++n) {
    Ids all(random() % 30);
    for (TokenId& id : all) id = static_cast<TokenId>(random() % static_cast<std::uint64_t>(tokenizer_->size()));
    const std::size_t cut = random() % (all.size() + 1);
    const std::span<const TokenId> before = std::span(all).first(cut), ids = std::span(all).subspan(cut);
    const DecodeOptions options{.skip_special = n % 2 == 0};
    const std::string first = tokenizer_->decode(before, options), whole = tokenizer_->decode(all, options);
    if (has_broken_run(all) || !whole.starts_with(first)) continue;  // a character that was cut, say
    ++compared;
    ASSERT_EQ(first + decoded_behind(*tokenizer_, before, ids, options), whole) << Json(all).dump() << " at " << cut;
  }
  EXPECT_GT(compared, 100);
}

INSTANTIATE_TEST_SUITE_P(All, Streaming, ::testing::ValuesIn(testing::kGoldenTokenizers), testing::golden_name);

class StreamingLlama : public ::testing::Test {
 protected:
  void SetUp() override {
    tokenizer_ = testing::open_golden("sp-bpe-llama2-like");
    ASSERT_TRUE(tokenizer_);
  }
  Ids encode(const std::string& text, EncodeOptions options = {.add_special = false}) {
    return *tokenizer_->encode(text, options);
  }
  TokenId byte(int value) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", value);
    return *tokenizer_->find(name);
  }
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(StreamingLlama, TheFirstBlankIsLostOnlyAtTheStartOfAllText) {
  const Ids word = encode("the");
  ASSERT_TRUE(tokenizer_->token_text(word.front()).starts_with("▁"));
  EXPECT_EQ(decoded_behind(*tokenizer_, {}, word), "the");
  EXPECT_EQ(decoded_behind(*tokenizer_, encode("a"), word), " the");
  // Special tokens are no text where they are skipped.
  const Ids begin = {*tokenizer_->bos()};
  EXPECT_EQ(decoded_behind(*tokenizer_, begin, word, {.skip_special = true}), "the");
  EXPECT_EQ(decoded_behind(*tokenizer_, begin, word, {.skip_special = false}), " the");
  // What a constraint read is shown as it read it.
  IncrementalDetokenizer constrained(*tokenizer_, {.skip_special = true}, begin);
  constrained.keep_blanks();
  std::string text;
  for (const TokenId id : word) text += constrained.push(id);
  EXPECT_EQ(text + constrained.finish(), " the");
}

TEST_F(StreamingLlama, ACharacterBegunBeforeIsShownOnceItIsWhole) {
  const Ids before = {encode("a").front(), byte(0xe2), byte(0x82)};
  EXPECT_EQ(decoded_behind(*tokenizer_, before, Ids{byte(0xac)}), "€");
  EXPECT_EQ(decoded_behind(*tokenizer_, before, encode("b")), " b");  // it was shown to be broken already
  EXPECT_EQ(decoded_behind(*tokenizer_, before, Ids{}), "");
}

TEST_F(StreamingLlama, TextThatGoesOnGetsNoBlankOfItsOwn) {
  for (const char* text : {"the", " the", "  x", "", "\n", "日本"}) {
    const Ids ids = encode(text, {.add_special = false, .continues = true});
    EXPECT_EQ(decoded_behind(*tokenizer_, encode("a"), ids), text);
  }
}

TEST(StreamingBytes, ACharacterBegunBeforeIsShownOnceItIsWhole) {
  const auto tokenizer = testing::open_golden("bytelevel-split");
  ASSERT_TRUE(tokenizer);
  const Ids euro = *tokenizer->encode("€", {.add_special = false});
  if (euro.size() != 3) GTEST_SKIP() << "the sign is not three tokens";
  EXPECT_EQ(decoded_behind(*tokenizer, std::span(euro).first(2), std::span(euro).subspan(2)), "€");
  const Ids a = *tokenizer->encode("a", {.add_special = false});
  EXPECT_EQ(decoded_behind(*tokenizer, std::span(euro).first(2), a), "a");
  EXPECT_EQ(decoded_behind(*tokenizer, std::span(euro).first(2), {}), "");
  EXPECT_EQ(decoded_behind(*tokenizer, a, std::span(euro).first(2)), "\ufffd");
}

// A tokenizer whose decoder only the library knows.
TEST(StreamingWordPiece, WordsAppearAsTheyAreCompleted) {
  const auto opened = Tokenizer::from_json(R"({
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
              "vocab": {"[UNK]": 0, "play": 1, "##ing": 2, "now": 3, ".": 4}},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}})");
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const Tokenizer& tokenizer = **opened;
  EXPECT_EQ(tokenizer.decode_rules().kind, DecodeRules::Kind::library);
  EXPECT_EQ(*tokenizer.encode("playing now."), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(tokenizer.token_bytes(2), "ing");
  EXPECT_EQ(tokenizer.token_bytes(3), " now");
  IncrementalDetokenizer stream(tokenizer);
  std::string all;
  for (const TokenId id : {1, 2, 3, 4}) all += stream.push(id);
  EXPECT_EQ(all + stream.finish(), "playing now.");
  EXPECT_EQ(decoded_behind(tokenizer, Ids{1}, Ids{2, 3, 4}), "ing now.");
  EXPECT_EQ(decoded_behind(tokenizer, Ids{1, 2}, Ids{3}), " now");
  EXPECT_EQ(decoded_behind(tokenizer, Ids{}, Ids{3}), "now");
}

TEST(Utf8, BrokenPartsBecomeOneReplacementEach) {
  const auto repaired = [](std::string_view bytes) {
    std::string out;
    append_valid_utf8(out, bytes, true);
    return out;
  };
  EXPECT_EQ(repaired("a\xe2\x82\xac!"), "a€!");
  EXPECT_EQ(repaired("\xe2\x82z"), "\ufffdz");  // one part that could have begun a character
  EXPECT_EQ(repaired("\xff\xfe"), "\ufffd\ufffd");
  EXPECT_EQ(repaired("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");  // a surrogate: no byte after the first can follow it
  EXPECT_EQ(repaired("\xf0\x9f\x98"), "\ufffd");
  EXPECT_EQ(repaired("\xc0\xaf"), "\ufffd\ufffd");  // overlong
  std::string out;
  EXPECT_EQ(append_valid_utf8(out, "ab\xf0\x9f", false), 2u);
  EXPECT_EQ(out, "ab");
}

}  // namespace
}  // namespace espalier
