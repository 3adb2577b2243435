#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/golden_name.h"
#include "text/golden_tokenizers.h"
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

INSTANTIATE_TEST_SUITE_P(All, Streaming, ::testing::ValuesIn(testing::kGoldenTokenizers), testing::golden_name);

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
