// GGUF vocabularies, made from golden tokenizers as a converter makes them: the ids must not change.
#include <gtest/gtest.h>

#include <map>

#include "testing/golden_name.h"
#include "text/stream/detokenizer.h"
#include "text/tokenizer/golden_tokenizers.h"
#include "text/tokenizer/tokenizer.h"
#include "text/vocabulary/gguf_vocabulary.h"

namespace espalier {
namespace {

using testing::golden_tokenizer;
using testing::json_lines;
using Ids = std::vector<TokenId>;

// The file's strings, which the vocabulary only views, and the vocabulary.
struct Converted {
  std::vector<std::string> tokens, merges;
  GgufVocabulary vocabulary;
  std::vector<std::string> fancy;  // added tokens with flags that GGUF has no place for
};

// Plain JSON, whose objects find their keys fast: a vocabulary has 150,000 of them.
std::unique_ptr<Converted> convert(const nlohmann::json& json, const std::string& model, const std::string& pre) {
  auto c = std::make_unique<Converted>();
  std::map<int, std::string> by_id;
  for (const auto& [token, id] : json["model"]["vocab"].items()) by_id[id.get<int>()] = token;
  for (const auto& added : json["added_tokens"]) by_id[added["id"].get<int>()] = added["content"].get<std::string>();
  c->vocabulary.model = model;
  c->vocabulary.pre = pre;
  c->tokens.resize(static_cast<std::size_t>(by_id.rbegin()->first) + 1);
  c->vocabulary.types.assign(c->tokens.size(), static_cast<int>(GgufTokenType::normal));
  for (const auto& [id, token] : by_id) c->tokens[static_cast<std::size_t>(id)] = token;
  for (const auto& added : json["added_tokens"]) {
    const auto id = added["id"].get<std::size_t>();
    c->vocabulary.types[id] =
        static_cast<int>(added["special"].get<bool>() ? GgufTokenType::control : GgufTokenType::user_defined);
    if (added["lstrip"].get<bool>() || added["rstrip"].get<bool>() || added["single_word"].get<bool>())
      c->fancy.push_back(added["content"]);
  }
  for (const auto& merge : json["model"]["merges"])
    c->merges.push_back(merge.is_string() ? merge.get<std::string>()
                                          : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  c->vocabulary.tokens.assign(c->tokens.begin(), c->tokens.end());
  c->vocabulary.merges.assign(c->merges.begin(), c->merges.end());
  return c;
}

std::unique_ptr<Converted> converted_golden(const std::string& name) {
  const auto folder = golden_tokenizer(name);
  if (folder.empty()) return nullptr;
  const auto json = nlohmann::json::parse(testing::read_file(folder / "tokenizer.json"));
  if (name == "deepseek_v3") return convert(json, "gpt2", "deepseek-v3");
  if (name != "sp-bpe-llama2-like") return convert(json, "gpt2", "qwen2");
  auto c = convert(json, "llama", "default");
  // A converter takes scores from the SentencePiece model, where they fall with the id, and lists no merges.
  c->vocabulary.merges.clear();
  for (std::size_t i = 0; i < c->tokens.size(); ++i) {
    c->vocabulary.scores.push_back(-static_cast<float>(i));
    if (c->tokens[i].starts_with("<0x")) c->vocabulary.types[i] = static_cast<int>(GgufTokenType::byte);
  }
  c->vocabulary.types[0] = static_cast<int>(GgufTokenType::unknown);
  c->vocabulary.unk = 0;
  c->vocabulary.bos = 1;
  c->vocabulary.eos = 2;
  return c;
}

class GgufTokenizer : public ::testing::TestWithParam<std::string> {};

TEST_P(GgufTokenizer, GivesTheIdsOfTheOriginal) {
  const auto converted = converted_golden(GetParam());
  if (!converted) GTEST_SKIP() << "left out: " << GetParam() << " is not beside the checkout";
  const auto opened = Tokenizer::from_gguf(converted->vocabulary);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const Tokenizer& tokenizer = **opened;
  int compared = 0;
  for (const Json& row : json_lines(golden_tokenizer(GetParam()) / "encodings.jsonl")) {
    const auto text = row["text"].get<std::string>();
    const bool fancy = std::any_of(converted->fancy.begin(), converted->fancy.end(),
                                   [&](const std::string& t) { return text.find(t) != std::string::npos; });
    if (fancy) continue;
    ++compared;
    const auto ids = row["ids"].get<Ids>();
    EXPECT_EQ(*tokenizer.encode(text, {.add_special = false}), ids) << row["name"];
    EXPECT_EQ(*tokenizer.encode(text), row["ids_with_special"].get<Ids>()) << row["name"];
    EXPECT_EQ(tokenizer.decode(ids), row.value("decoded", text)) << row["name"];
    if (row.contains("ids_special_as_text")) {
      EXPECT_EQ(*tokenizer.encode(text, {.add_special = false, .parse_special = false}),
                row["ids_special_as_text"].get<Ids>())
          << row["name"];
    }
  }
  EXPECT_GT(compared, 110);
}

INSTANTIATE_TEST_SUITE_P(All, GgufTokenizer,
                         ::testing::Values("bytelevel-split", "sp-bpe-llama2-like", "qwen3", "deepseek_v3"),
                         testing::golden_name);

GgufVocabulary small(const char* model = "gpt2") {
  GgufVocabulary v;
  v.model = model;
  v.pre = "gpt-2";
  v.tokens = {"a", "b", "ab", "Ġ", "<end>", "1", "2", "3", "123", "12"};
  v.types = {1, 1, 1, 1, 3, 1, 1, 1, 1, 1};
  v.merges = {"a b", "1 2", "12 3"};
  v.eos = 4;
  return v;
}

TEST(GgufVocabulary, EveryKnownPreTokenizerOpensAndKeepsAllText) {
  for (const char* pre : {"",
                          "default",
                          "gpt-2",
                          "llama3",
                          "llama-v3",
                          "llama-bpe",
                          "qwen2",
                          "qwen35",
                          "deepseek-llm",
                          "deepseek-coder",
                          "deepseek-v3",
                          "falcon",
                          "starcoder",
                          "refact",
                          "smollm",
                          "command-r",
                          "olmo",
                          "dbrx",
                          "stablelm2",
                          "poro-chat",
                          "bloom",
                          "gpt3-finnish",
                          "mpt",
                          "viking",
                          "jais",
                          "tekken",
                          "chatglm-bpe",
                          "glm4",
                          "exaone",
                          "exaone4",
                          "gpt-4o",
                          "llama4",
                          "superbpe",
                          "kimi-k2",
                          "bailingmoe",
                          "seed-coder",
                          "minerva-7b",
                          "chameleon",
                          "hunyuan",
                          "hunyuan-dense",
                          "grok-2",
                          "afmoe",
                          "minimax-m2",
                          "trillion",
                          "granite-docling",
                          "codeshell",
                          "megrez",
                          "smaug-bpe",
                          "jina-v2-code",
                          "youtu",
                          "exaone-moe",
                          "jais-2",
                          "mellum2",
                          "tiny_aya",
                          "cohere2moe",
                          "cohere2_moe",
                          "laguna",
                          "openpangu",
                          "minicpm5",
                          "spark2_5",
                          "hy_v4",
                          "ufakzeka",
                          "kimi-k25",
                          "granite-embed-multi-97m"}) {
    GgufVocabulary v = small();
    v.pre = pre;
    v.add_bos = false;
    const auto opened = Tokenizer::from_gguf(v);
    ASSERT_TRUE(opened.ok()) << pre << ": " << opened.error().message;
    const auto ids = (*opened)->encode("ab a123 b<end> ab12 123b");
    ASSERT_TRUE(ids.ok()) << pre << ": " << ids.error().message;
    EXPECT_EQ((*opened)->decode(*ids), "ab a123 b<end> ab12 123b") << pre;
  }
}

TEST(GgufVocabulary, DigitsAreCutAsTheNameSays) {
  const auto digits = [](const char* pre) {
    GgufVocabulary v = small();
    v.pre = pre;
    v.add_bos = false;
    return (*Tokenizer::from_gguf(v))->encode("123")->size();
  };
  EXPECT_EQ(digits("gpt-2"), 1u);
  EXPECT_EQ(digits("llama3"), 1u);
  EXPECT_EQ(digits("qwen2"), 3u);
  EXPECT_EQ(digits("smollm"), 3u);
  EXPECT_EQ(digits("mellum2"), 3u);
  EXPECT_EQ(digits("laguna"), 3u);
  EXPECT_EQ(digits("exaone-moe"), 3u);
  EXPECT_EQ(digits("youtu"), 3u);
  EXPECT_EQ(digits("jais-2"), 1u);
  EXPECT_EQ(digits("tiny_aya"), 1u);
}

TEST(GgufVocabulary, UnknownNamesAreRefusedByName) {
  GgufVocabulary v = small();
  v.pre = "no-such-cut";
  auto opened = Tokenizer::from_gguf(v);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().field, "tokenizer.ggml.pre");
  EXPECT_NE(opened.error().message.find("no-such-cut"), std::string::npos);
  opened = Tokenizer::from_gguf(small("no-such-model"));
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().field, "tokenizer.ggml.model");
  EXPECT_NE(opened.error().message.find("no-such-model"), std::string::npos);
}

// The tokens of "12345" where only three digits together are one, and single ones.
TEST(GgufVocabulary, DigitsAreGroupedFromTheRightWhereTheNameSaysSo) {
  GgufVocabulary v = small();
  v.tokens = {"1", "2", "3", "4", "5", "12", "34", "123", "345", "45"};
  v.types.assign(v.tokens.size(), 1);
  v.merges = {"1 2", "4 5", "12 3", "3 45"};
  v.eos.reset();
  v.pre = "tiny_aya";
  EXPECT_EQ(*(*Tokenizer::from_gguf(v))->encode("12345"), (Ids{5, 8}));
  v.pre = "llama3";
  EXPECT_EQ(*(*Tokenizer::from_gguf(v))->encode("12345", {.add_special = false}), (Ids{7, 9}));
}

TEST(GgufVocabulary, UserDefinedTokensAreLiteralText) {
  GgufVocabulary v = small();
  v.tokens.insert(v.tokens.end(), {"ü", "F", "Ã", "¼", "Ã¼", "h", "<|x|>", "Ġtool"});
  v.types.insert(v.types.end(), {4, 1, 1, 1, 1, 1, 3, 4});
  v.merges.push_back("Ã ¼");
  const auto opened = Tokenizer::from_gguf(v);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(*(*opened)->encode("Füh"), (Ids{11, 10, 15}));
  EXPECT_EQ((*opened)->decode(Ids{11, 10, 15}), "Füh");
  EXPECT_EQ((*opened)->decode(Ids{11, 14, 15}), "Füh");  // the same in the alphabet of bytes
  EXPECT_EQ((*opened)->token_bytes(10), "ü");
  EXPECT_EQ((*opened)->token_bytes(17), "Ġtool");
  IncrementalDetokenizer stream(**opened);
  EXPECT_EQ(stream.push(10) + stream.push(15) + stream.finish(), "üh");
}

TEST(GgufVocabulary, AUserDefinedTokenMayBeSpelledAsAByteIs) {
  for (const bool first : {false, true}) {
    GgufVocabulary v = small();
    v.tokens.insert(v.tokens.end(), {"ü", "ü", "h", "Ã", "¼"});
    v.types.insert(v.types.end(), {first ? 4 : 1, first ? 1 : 4, 1, 1, 1});
    const TokenId literal = first ? 10 : 11, byte = first ? 11 : 10;
    const auto opened = Tokenizer::from_gguf(v);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ(*(*opened)->encode("hüh"), (Ids{12, literal, 12}));
    EXPECT_EQ((*opened)->decode(Ids{12, literal, 12}), "hüh");
    EXPECT_EQ((*opened)->token_bytes(byte), "\xfc");
  }
}

TEST(GgufVocabulary, WhatDoesNotFitTogetherIsRefused) {
  const auto refused_field = [](auto&& change) {
    GgufVocabulary v = small();
    change(v);
    const auto opened = Tokenizer::from_gguf(v);
    return opened.ok() ? std::string("accepted") : opened.error().field;
  };
  EXPECT_EQ(refused_field([](auto& v) { v.tokens.clear(); }), "tokenizer.ggml.tokens");
  EXPECT_EQ(refused_field([](auto& v) { v.types.pop_back(); }), "tokenizer.ggml.token_type");
  EXPECT_EQ(refused_field([](auto& v) { v.scores = {1.0f}; }), "tokenizer.ggml.scores");
  EXPECT_EQ(refused_field([](auto& v) { v.merges.push_back("ab"); }), "tokenizer.ggml.merges");
  EXPECT_EQ(refused_field([](auto& v) { v.eos = 10; }), "tokenizer.ggml.eos_token_id");
  EXPECT_EQ(refused_field([](auto& v) { v.bos = -1; }), "tokenizer.ggml.bos_token_id");
  EXPECT_EQ(refused_field([](auto& v) { v.add_bos = true; }), "tokenizer.ggml.bos_token_id");
  EXPECT_EQ(refused_field([](auto& v) { v.tokens[0] = "\xff"; }), "tokenizer.ggml.tokens");
  EXPECT_EQ(refused_field([](auto& v) { v.merges[0] = "\xff a"; }), "tokenizer.ggml.merges");
}

TEST(GgufVocabulary, BeginAndEndTokensFollowTheFlags) {
  GgufVocabulary v = small();
  v.bos = 4;
  v.add_bos = true;
  v.add_eos = true;
  EXPECT_EQ(*(*Tokenizer::from_gguf(v))->encode("ab"), (Ids{4, 2, 4}));
  v.add_eos = false;
  EXPECT_EQ(*(*Tokenizer::from_gguf(v))->encode("ab"), (Ids{4, 2}));
  v.add_bos = std::nullopt;
  EXPECT_EQ(*(*Tokenizer::from_gguf(v))->encode("ab"), (Ids{2}));
  v.pre = "llama-bpe";  // whose models begin with one unless the file says otherwise
  EXPECT_EQ(*(*Tokenizer::from_gguf(v))->encode("ab"), (Ids{4, 2}));
}

TEST(GgufVocabulary, EmptyTokensDoNotClash) {
  GgufVocabulary v = small();
  v.tokens.insert(v.tokens.end(), {"", ""});
  v.types.insert(v.types.end(), {5, 5});
  const auto opened = Tokenizer::from_gguf(v);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->token_text(11), "[EMPTY_11]");
}

}  // namespace
}  // namespace espalier
