#include "text/tokenizer/end_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

namespace espalier {
namespace {

// One whose added tokens have the ids from 1 on.
std::shared_ptr<const Tokenizer> with_tokens(const std::vector<std::string>& special,
                                             const std::vector<std::string>& plain = {}, const Json& config = nullptr) {
  Json vocab = {{"a", 0}}, added = Json::array();
  int next = 1;
  for (const auto* list : {&special, &plain}) {
    for (const std::string& token : *list) {
      vocab[token] = next;
      added.push_back({{"id", next++},
                       {"content", token},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", list == &special}});
    }
  }
  const Json file = {{"version", "1.0"},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", nullptr},
                     {"post_processor", nullptr},
                     {"decoder", {{"type", "Fuse"}}},
                     {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  auto made = Tokenizer::from_json(file.dump(), config);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return *made;
}

std::vector<TokenId> ends(const Tokenizer& tokenizer, const std::string& source = {}) {
  std::optional<ChatTemplate> parsed;
  if (!source.empty()) {
    auto made = ChatTemplate::parse(source);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    parsed = std::move(*made);
  }
  auto found = end_tokens(tokenizer, parsed ? &*parsed : nullptr);
  std::sort(found.begin(), found.end());
  return found;
}

using Ids = std::vector<TokenId>;

TEST(EndTokens, TheTokenizersOwnCounts) {
  EXPECT_EQ(ends(*with_tokens({"<a>", "<the-end>"}, {}, Json{{"eos_token", "<the-end>"}})), Ids{2});
}

TEST(EndTokens, KnownNamesCountWhereverAVocabularyHasThem) {
  EXPECT_EQ(ends(*with_tokens({"<|im_start|>", "<|im_end|>", "<|eot_id|>", "<x>"}, {"<end_of_turn>"})), (Ids{2, 3, 5}));
}

TEST(EndTokens, NamesThatAreWordsCountOnlyAsSpecialTokens) {
  EXPECT_EQ(ends(*with_tokens({"</s>"})), Ids{1});
  EXPECT_EQ(ends(*with_tokens({"<x>"}, {"</s>"})), Ids{});  // HTML
}

TEST(EndTokens, WhereAnAnswerHasSeveralMessagesTheEndOfOneIsNotItsEnd) {
  EXPECT_EQ(ends(*with_tokens({"<|end|>", "<|return|>", "<|call|>"})), (Ids{2, 3}));
  EXPECT_EQ(ends(*with_tokens({"<|end|>"})), Ids{1});
  EXPECT_EQ(ends(*with_tokens({"<|tool_response>", "</s>"})), Ids{1});
}

TEST(EndTokens, WhatTheTemplateWritesBehindAnAnswerCounts) {
  const auto tokenizer = with_tokens({"[|turn|]", "[|over|]", "<bos>"}, {"[|plain|]"});
  const std::string loop = "{% for m in messages %}[|turn|]{{ m.content }}";
  EXPECT_EQ(ends(*tokenizer, loop + "[|over|]\n{% endfor %}"), Ids{2});
  EXPECT_EQ(ends(*tokenizer, loop + " \n[|over|]{% endfor %}"), Ids{2});
  EXPECT_EQ(ends(*tokenizer, loop + "{% endfor %}"), Ids{});               // nothing closes a turn
  EXPECT_EQ(ends(*tokenizer, loop + "[|plain|]{% endfor %}"), Ids{});      // no special token
  EXPECT_EQ(ends(*tokenizer, loop + " and [|over|]{% endfor %}"), Ids{});  // text comes first
  EXPECT_EQ(ends(*tokenizer, "{{ raise_exception('no') }}"), Ids{});
}

}  // namespace
}  // namespace espalier
