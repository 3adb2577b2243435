// Marks of fill in the middle: found by the names that families gave them, and by what a model's file says.
#include "server/prompt/infill.h"

#include <gtest/gtest.h>

#include "text/small_tokenizers.h"

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

}  // namespace
}  // namespace espalier::server::infill_test
