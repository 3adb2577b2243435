// Marks of fill in the middle: found by the names that families gave them, and by what a model's file says.
#include "server/prompt/infill.h"

#include <gtest/gtest.h>

#include "text/tokenizer/small_tokenizers.h"
#include "text/vocabulary/gguf_vocabulary.h"

namespace espalier::server::infill_test {
namespace {

std::shared_ptr<const Tokenizer> with_tokens(std::initializer_list<const char*> texts) {
  Json added = Json::array();
  int id = 256;
  for (const char* text : texts) added.push_back(espalier::testing::added_token(id++, text, "", true));
  const Json json = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", espalier::testing::byte_vocabulary()}, {"merges", Json::array()}}}};
  auto opened = Tokenizer::from_json(json.dump());
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  return *opened;
}

// The marks must stand first, in this order: prefix, suffix, then what there is of middle, repository, file.
void expect_marks(std::initializer_list<const char*> texts, bool middle, bool repository, bool file,
                  bool suffix_first) {
  const auto tokenizer = with_tokens(texts);
  const auto marks = infill_marks(*tokenizer);
  ASSERT_TRUE(marks) << *texts.begin();
  TokenId next = 256;
  EXPECT_EQ(marks->prefix, next++);
  EXPECT_EQ(marks->suffix, next++);
  EXPECT_EQ(marks->middle, middle ? std::optional(next++) : std::nullopt);
  EXPECT_EQ(marks->repository, repository ? std::optional(next++) : std::nullopt);
  EXPECT_EQ(marks->file, file ? std::optional(next++) : std::nullopt);
  EXPECT_EQ(marks->suffix_first, suffix_first);
}

TEST(InfillMarks, AreFoundByTheNamesOfFamilies) {
  expect_marks({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"}, true, true,
               true, false);
  expect_marks({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_separator|>"}, true, false, true, false);
  expect_marks({"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"}, true, true, true, false);
  expect_marks({"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<reponame>", "<filename>"}, true, true, true, false);
  expect_marks({"<fim_prefix>", "<fim_suffix>", "<fim_middle>"}, true, false, false, false);
  expect_marks({"<fim-prefix>", "<fim-suffix>", "<fim-middle>"}, true, false, false, false);
  expect_marks({"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}, true, false, false, false);
  expect_marks({"▁<PRE>", "▁<SUF>", "▁<MID>"}, true, false, false, false);
  expect_marks({"[PREFIX]", "[SUFFIX]", "[MIDDLE]"}, false, false, false, true);
  expect_marks({"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, true, false, false, true);
  expect_marks({"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"}, true, false, false, true);
}

TEST(InfillMarks, AreNotThereInPart) {
  EXPECT_FALSE(infill_marks(*with_tokens({"<a>", "<b>"})));
  EXPECT_FALSE(infill_marks(*with_tokens({"<fim_prefix>", "<fim_middle>"})));
  EXPECT_FALSE(infill_marks(*with_tokens({"<fim_prefix>", "<fim_suffix>"})));
}

TEST(InfillMarks, AreThoseThatAFileNames) {
  std::vector<std::string> texts;
  const Json bytes = espalier::testing::byte_vocabulary();
  for (const auto& [text, id] : bytes.items()) texts.push_back(text);
  for (const char* text : {"<before>", "<behind>", "<between>"}) texts.emplace_back(text);
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.tokens.assign(texts.begin(), texts.end());
  vocabulary.types.assign(texts.size(), 1);
  for (int i = 256; i < 259; ++i) vocabulary.types[static_cast<std::size_t>(i)] = 3;
  const auto nameless = Tokenizer::from_gguf(vocabulary);
  ASSERT_TRUE(nameless.ok()) << nameless.error().message;
  EXPECT_FALSE(infill_marks(**nameless));
  vocabulary.fim_prefix = 256;
  vocabulary.fim_suffix = 257;
  vocabulary.fim_middle = 258;
  const auto named = Tokenizer::from_gguf(vocabulary);
  ASSERT_TRUE(named.ok()) << named.error().message;
  const auto marks = infill_marks(**named);
  ASSERT_TRUE(marks);
  EXPECT_EQ(marks->prefix, 256);
  EXPECT_EQ(marks->suffix, 257);
  EXPECT_EQ(marks->middle, 258);
  vocabulary.fim_middle = 259;
  EXPECT_EQ(Tokenizer::from_gguf(vocabulary).error().field, "tokenizer.ggml.fim_mid_token_id");
}

}  // namespace
}  // namespace espalier::server::infill_test
