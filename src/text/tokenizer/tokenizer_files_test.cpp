// Tokenizers in every form, against the libraries that own the forms (tools/goldens/make_tokenizer_files.py).
#include "text/tokenizer/tokenizer_files.h"

#include <gtest/gtest.h>

#include "base/base64.h"
#include "testing/data.h"
#include "testing/golden_name.h"
#include "testing/temp_folder.h"
#include "text/tokenizer/tokenizer_impl.h"

namespace espalier {
namespace {

using Ids = std::vector<TokenId>;

Json cases_of(const std::string& name) {
  return Json::parse(testing::read_file(testing::data("tokenizers/" + name) / "cases.json"));
}

Ids encode(const Tokenizer& tokenizer, const std::string& text, EncodeOptions options) {
  auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids.ok()) << (ids.ok() ? "" : ids.error().message);
  return ids.ok() ? *ids : Ids();
}

// A text that names a token of the folder is read by the library's slow side in its own way.
bool names_a_token(const Tokenizer& tokenizer, const std::string& text) {
  for (TokenId id = 0; id < tokenizer.size(); ++id)
    if (tokenizer.is_special(id) && text.find(tokenizer.token_text(id)) != std::string::npos) return true;
  return false;
}

class SentencePieceFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(SentencePieceFolder, GivesTheIdsOfTheLibrary) {
  const auto opened = Tokenizer::open_hf(testing::data("tokenizers/" + GetParam()));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const Tokenizer& tokenizer = **opened;
  const Json all = cases_of(GetParam());
  EXPECT_EQ(tokenizer.size(), all["pieces"].get<int>());
  EXPECT_EQ(tokenizer.unk(), all["unk"].get<int>());
  int compared = 0;
  for (const Json& one : all["cases"]) {
    const auto text = one["text"].get<std::string>();
    if (names_a_token(tokenizer, text)) continue;
    ++compared;
    EXPECT_EQ(encode(tokenizer, text, {.add_special = false}), one["ids"].get<Ids>()) << one["text"];
    const auto ids = one["ids"].get<Ids>();
    const bool unknown = std::find(ids.begin(), ids.end(), *tokenizer.unk()) != ids.end();  // that library writes ⁇
    // It takes a blank off the start wherever it put one or took several; we do where it put one.
    if (!unknown && GetParam() != "sp-bpe-suffix") {
      EXPECT_EQ(tokenizer.decode(ids), one["decoded"].get<std::string>()) << one["text"];
    }
  }
  EXPECT_GT(compared, 90);
}

INSTANTIATE_TEST_SUITE_P(All, SentencePieceFolder,
                         ::testing::Values("sp-bpe", "sp-unigram", "sp-unigram-bytes", "sp-bpe-suffix", "sp-char"),
                         testing::golden_name);

class OtherFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(OtherFolder, GivesTheIdsOfTheLibrary) {
  const auto opened = Tokenizer::open_hf(testing::data("tokenizers/" + GetParam()));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const Tokenizer& tokenizer = **opened;
  for (const Json& one : cases_of(GetParam())["cases"]) {
    const auto text = one["text"].get<std::string>();
    const auto ids = one["ids"].get<Ids>();
    EXPECT_EQ(encode(tokenizer, text, {.add_special = false}), ids) << one["text"];
    if (one.contains("plain")) {
      EXPECT_EQ(encode(tokenizer, text, {false, false}), one["plain"].get<Ids>()) << one["text"];
    }
    if (one.contains("with_special")) {
      EXPECT_EQ(encode(tokenizer, text, {}), one["with_special"].get<Ids>()) << one["text"];
    }
    if (one.contains("decoded")) {
      EXPECT_EQ(tokenizer.decode(ids), one["decoded"].get<std::string>()) << one["text"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OtherFolder,
                         ::testing::Values("tiktoken-qwen", "tiktoken-pattern", "merges-gpt2", "merges-qwen2",
                                           "word-list"),
                         testing::golden_name);

TEST(TokenizerKinds, EveryClassOfTheLibraryGivesItsIdsAndText) {
  const Json kinds = Json::parse(testing::read_file(testing::data("tokenizers/kinds.json")));
  EXPECT_GT(kinds.size(), 15u);
  for (const auto& [name, kind] : kinds.items()) {
    const auto opened = Tokenizer::from_json(kind["tokenizer"].dump());
    ASSERT_TRUE(opened.ok()) << name << ": " << opened.error().message;
    for (const Json& one : kind["cases"]) {
      const auto text = one["text"].get<std::string>();
      EXPECT_EQ(encode(**opened, text, {.add_special = false}), one["ids"].get<Ids>()) << name << one["text"];
      EXPECT_EQ(encode(**opened, text, {}), one["with_special"].get<Ids>()) << name << one["text"];
      EXPECT_EQ((*opened)->decode(one["ids"].get<Ids>()), one["decoded"].get<std::string>()) << name << one["text"];
    }
  }
}

class FolderOf : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { folder_.write(name, text); }
  Result<std::shared_ptr<const Tokenizer>> open() { return Tokenizer::open_hf(folder_.path()); }
  std::string refusal() {
    const auto opened = open();
    return opened.ok() ? "opened" : opened.error().message;
  }

  testing::TempFolder folder_;
};

std::string byte_ranks() {
  std::string lines;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    lines += base64({&c, 1}) + " " + std::to_string(byte) + "\n";
  }
  return lines;
}

TEST_F(FolderOf, ATiktokenFileOfNobodyKnownSaysThatThePatternIsMissing) {
  write("some.tiktoken", byte_ranks());
  write("tokenizer_config.json", R"({"tokenizer_class": "NobodysTokenizer"})");
  EXPECT_NE(refusal().find("NobodysTokenizer"), std::string::npos) << refusal();
  EXPECT_NE(refusal().find("pat_str"), std::string::npos) << refusal();
  write("tokenizer_config.json", R"({"tokenizer_class": "NobodysTokenizer", "pat_str": "\\p{N}|\\P{N}+"})");
  const auto opened = open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*(*opened)->encode("ab")), (Ids{'a', 'b'}));
}

TEST_F(FolderOf, KimisFileHasItsNamesFromTheConfigurationAndReservesTheRest) {
  write("tiktoken.model", byte_ranks());
  write("tokenizer_config.json", R"({"tokenizer_class": "TikTokenTokenizer", "eos_token": "[EOS]",
      "added_tokens_decoder": {"256": {"content": "[BOS]", "special": true}, "257": {"content": "[EOS]", "special": true},
                               "300": {"content": "<|im_end|>", "special": true}}})");
  const auto opened = open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode("[BOS]<|im_end|><|reserved_token_258|>"), (Ids{256, 300, 258}));
  EXPECT_EQ((*opened)->eos(), 257);
  EXPECT_EQ((*opened)->size(), 512);
}

TEST_F(FolderOf, LlamaThreesFileIsKnownByItsSize) {
  std::string lines = byte_ranks();
  for (int i = 256; i < 128'000; ++i) lines += base64("t" + std::to_string(i)) + " " + std::to_string(i) + "\n";
  write("tokenizer.model", lines);
  const auto opened = open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode("a<|eot_id|>"), (Ids{128'000, 'a', 128'009}));
  EXPECT_EQ((*opened)->size(), 128'256);
  EXPECT_EQ((*opened)->token_text(128'255), "<|reserved_special_token_247|>");
}

TEST_F(FolderOf, TekkenFilesHaveTheirSpecialTokensFirst) {
  Json vocab = Json::array();
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocab.push_back({{"rank", byte}, {"token_bytes", base64({&c, 1})}, {"token_str", nullptr}});
  }
  vocab.push_back({{"rank", 256}, {"token_bytes", base64("ab")}, {"token_str", "ab"}});
  vocab.push_back({{"rank", 257}, {"token_bytes", base64("abab")}, {"token_str", "abab"}});
  const Json file = {{"config",
                      {{"pattern", R"(\p{L}+|[^\p{L}]+)"},
                       {"num_vocab_tokens", 300},
                       {"default_vocab_size", 1257},
                       {"default_num_special_tokens", 1000}}},
                     {"vocab", vocab}};
  write("tekken.json", file.dump());
  const auto opened = open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode("[INST]abab[/INST]"), (Ids{1, 3, 1256, 1256, 4}));  // "abab" is beyond the model's size
  EXPECT_EQ((*opened)->bos(), 1);
  EXPECT_EQ((*opened)->eos(), 2);
  EXPECT_TRUE((*opened)->is_special(999));
}

TEST_F(FolderOf, XlmRobertasIdsAreFairseqs) {
  write("sentencepiece.bpe.model", testing::read_file(testing::data("tokenizers/sp-char/tokenizer.model")));
  write("tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  const auto opened = open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const auto plain = Tokenizer::open_hf(testing::data("tokenizers/sp-char"));
  ASSERT_TRUE(plain.ok());
  Ids expected = {0};
  for (const TokenId id : encode(**plain, "the street", {.add_special = false})) expected.push_back(id + 1);
  expected.push_back(2);
  EXPECT_EQ(encode(**opened, "the street", {}), expected);
  EXPECT_EQ((*opened)->token_text((*opened)->size() - 1), "<mask>");
  EXPECT_EQ((*opened)->unk(), 3);
}

TEST_F(FolderOf, ABlankIsPutBeforeTextBehindSpecialTokensOnlyByOldLlamas) {
  write("tokenizer.model", testing::read_file(testing::data("tokenizers/sp-bpe/tokenizer.model")));
  const auto spaces = [&](const char* config) {
    write("tokenizer_config.json", config);
    const auto opened = open();
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    return (*opened)->decode(encode(**opened, "a<s>b", {.add_special = false}), {.skip_special = true});
  };
  EXPECT_EQ(spaces(R"({"tokenizer_class": "LlamaTokenizer", "legacy": true})"), "a b");
  EXPECT_EQ(spaces(R"({"tokenizer_class": "LlamaTokenizer", "legacy": false})"), "ab");
  EXPECT_EQ(spaces(R"({"tokenizer_class": "LlamaTokenizer"})"), "ab");
}

TEST_F(FolderOf, FilesThatAreNoneAreRefusedWithASentence) {
  for (const auto& [name, bytes, wanted] :
       {std::tuple{"tokenizer.model", std::string("\x0a\xff\xff"), "SentencePiece"},
        std::tuple{"tokenizer.model", std::string(), "no pieces"},
        std::tuple{"tokenizer.model", std::string("IQ== zero\n"), "SentencePiece"},
        std::tuple{"a.tiktoken", std::string("IQ== 0\nIg== 9999999\n"), "line 2"},
        std::tuple{"a.tiktoken", std::string("I! 0\n"), "base64"},
        std::tuple{"tekken.json", std::string("{}"), "config"}, std::tuple{"vocab.txt", std::string(), "no tokens"}}) {
    write(name, bytes);
    EXPECT_NE(refusal().find(wanted), std::string::npos) << name << ": " << refusal();
    std::filesystem::remove(folder_.path() / name);
  }
  EXPECT_NE(refusal().find("tokenizer.json"), std::string::npos);
}

TEST_F(FolderOf, ConfigurationsMayBeginWithAByteOrderMarkAndHoldPythonsNumbers) {
  const std::string mark = "\xef\xbb\xbf";
  const Json kinds = Json::parse(testing::read_file(testing::data("tokenizers/kinds.json")));
  write("tokenizer.json", mark + kinds["bpe-roberta"]["tokenizer"].dump());
  write("tokenizer_config.json",
        mark + R"({"eos_token": "</s>", "model_max_length": Infinity, "x": [NaN, -Infinity]})");
  write("special_tokens_map.json", mark + R"({"bos_token": "<s>"})");
  const auto opened = open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->token_text(*(*opened)->eos()), "</s>");
  EXPECT_EQ((*opened)->token_text(*(*opened)->bos()), "<s>");
}

}  // namespace
}  // namespace espalier
