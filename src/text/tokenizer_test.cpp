// Every golden encoding and decoding, and the rules that the contract of tokenizer.h states.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "espalier/error.h"
#include "testing/data.h"
#include "text/detokenizer.h"
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

namespace espalier {
namespace {

const std::vector<std::string> kNames = {"bytelevel-split", "sp-bpe-llama2-like", "unigram-t5-like", "qwen3",
                                         "deepseek_v3"};

std::filesystem::path folder_of(const std::string& name) {
  return testing::golden("tokenizers/" + name);
}

std::vector<Json> lines_of(const std::filesystem::path& path) {
  std::vector<Json> all;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) all.push_back(Json::parse(line));
  return all;
}

class GoldenTokenizer : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = folder_of(GetParam());
    if (folder_.empty()) GTEST_SKIP() << "left out: " << GetParam() << " is not beside the checkout";
    auto opened = Tokenizer::open_hf(folder_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    tokenizer_ = *opened;
  }

  std::vector<TokenId> encode(const std::string& text, EncodeOptions options) {
    auto ids = tokenizer_->encode(text, options);
    EXPECT_TRUE(ids.ok());
    return ids.ok() ? *ids : std::vector<TokenId>();
  }

  std::filesystem::path folder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

using Ids = std::vector<TokenId>;

TEST_P(GoldenTokenizer, EveryEncodingIsExact) {
  for (const Json& row : lines_of(folder_ / "encodings.jsonl")) {
    const auto text = row["text"].get<std::string>();
    const auto name = row["name"].get<std::string>();
    EXPECT_EQ(encode(text, {.add_special = false}), row["ids"].get<Ids>()) << name;
    EXPECT_EQ(encode(text, {.add_special = true}), row["ids_with_special"].get<Ids>()) << name;
    if (row.contains("ids_special_as_text")) {
      EXPECT_EQ(encode(text, {.add_special = false, .parse_special = false}), row["ids_special_as_text"].get<Ids>())
          << name;
    }
  }
}

TEST_P(GoldenTokenizer, EveryDecodingIsExact) {
  for (const Json& row : lines_of(folder_ / "encodings.jsonl")) {
    const auto ids = row["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->decode(ids), row.contains("decoded") ? row["decoded"] : row["text"]) << row["name"];
    EXPECT_EQ(tokenizer_->decode(ids, {.skip_special = true}), row["decoded_skip_special"]) << row["name"];
  }
  for (const Json& row : lines_of(folder_ / "decodings.jsonl")) {
    const auto ids = row["ids"].get<Ids>();
    EXPECT_EQ(tokenizer_->decode(ids), row["text"]) << row["ids"];
    if (row.contains("text_skip_special")) {
      EXPECT_EQ(tokenizer_->decode(ids, {.skip_special = true}), row["text_skip_special"]) << row["ids"];
    }
  }
}

TEST_P(GoldenTokenizer, StreamedPiecesAreThoseOfTheGolden) {
  for (const Json& row : lines_of(folder_ / "encodings.jsonl")) {
    if (!row.contains("stream")) continue;
    IncrementalDetokenizer stream(*tokenizer_);
    const auto ids = row["ids"].get<Ids>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::string piece = stream.push(ids[i]);
      if (i + 1 == ids.size()) piece += stream.finish();
      EXPECT_EQ(piece, row["stream"][i]) << row["name"] << " token " << i;
    }
  }
}

TEST_P(GoldenTokenizer, OurEncoderAgreesWithTheLibraryOnRandomTexts) {
  const auto json = testing::read_file(folder_ / "tokenizer.json");
  auto library = Tokenizer::Impl::make(json, {}, true);
  ASSERT_TRUE(library.ok()) << library.error().message;
  std::mt19937_64 random(testing::seed());
  const auto rows = lines_of(folder_ / "encodings.jsonl");
  for (int n = 0; n < 300; ++n) {
    std::string text;
    for (int part = 0; part < 4; ++part) {
      const auto source = rows[random() % rows.size()]["text"].get<std::string>();
      std::size_t from = source.empty() ? 0 : random() % source.size(), size = random() % 60;
      std::string cut;
      append_valid_utf8(cut, std::string_view(source).substr(from, size), true);
      text += cut;
      if (random() % 4 == 0)
        text += std::string(
            tokenizer_->token_text(static_cast<TokenId>(random() % static_cast<std::uint64_t>(tokenizer_->size()))));
    }
    for (const bool parse : {true, false}) {
      const EncodeOptions options{.add_special = n % 2 == 0, .parse_special = parse};
      EXPECT_EQ(encode(text, options), *(*library)->encode(text, options)) << Json(text).dump();
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& tokenizer) {
  std::string name = tokenizer.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizer, ::testing::ValuesIn(kNames), test_name);

}  // namespace
}  // namespace espalier
