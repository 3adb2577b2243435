// What stands around two texts, as tokenizer.json says in each of its forms.
#include "text/tokenizer/pair_template.h"

#include <gtest/gtest.h>

#include "text/tokenizer/small_tokenizers.h"

namespace espalier::pair_template_test {
namespace {

using Kind = PairTemplate::Piece::Kind;

std::string shown(std::string_view json) {
  const auto read = PairTemplate::parse(json);
  if (!read.ok()) return "refused";
  std::string out;
  for (const auto& piece : read->pieces) {
    if (piece.kind == Kind::first) out += "A";
    if (piece.kind == Kind::second) out += "B";
    for (const TokenId id : piece.tokens) out += "<" + std::to_string(id) + ">";
    out += std::to_string(piece.type) + " ";
  }
  return out;
}

TEST(PairTemplate, EachFormIsRead) {
  EXPECT_EQ(shown("null"), "A0 B0 ");
  EXPECT_EQ(shown(R"({"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]})"), "<2>0 A0 <3>0 B1 <3>1 ");
  EXPECT_EQ(shown(R"({"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",0]})"), "<0>0 A0 <2><2>0 B0 <2>0 ");
  EXPECT_EQ(shown(R"({"type":"Sequence","processors":[{"type":"ByteLevel"},{"type":"TemplateProcessing","single":[],
    "pair":[{"SpecialToken":{"id":"x","type_id":0}},{"Sequence":{"id":"B","type_id":0}},{"Sequence":{"id":"A","type_id":1}}],
    "special_tokens":{"x":{"id":"x","ids":[7,8],"tokens":["a","b"]}}}]})"),
            "<7><8>0 B0 A1 ");
}

TEST(PairTemplate, WhatIsWrongIsRefused) {
  for (const char* json :
       {R"({"type":"BertProcessing","sep":["x",-3],"cls":["y",2]})", R"({"type":"BertProcessing","cls":["y",2]})",
        R"({"type":"TemplateProcessing","pair":[{"SpecialToken":{"id":"x"}}],"special_tokens":{}})",
        R"({"type":"TemplateProcessing","pair":[3]})",
        R"({"type":"TemplateProcessing","pair":[{"Sequence":{"id":"A","type_id":999}}]})", "{"})
    EXPECT_EQ(shown(json), "refused") << json;
}

TEST(PairTemplate, ATokenizerWithoutOnePutsTextsBehindOneAnother) {
  const auto tokenizer = testing::byte_level().ours;
  const auto pair = tokenizer->encode_pair("ab", "cd");
  ASSERT_TRUE(pair.ok());
  auto both = *tokenizer->encode("ab", {.add_special = false});
  const auto second = *tokenizer->encode("cd", {.add_special = false});
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(pair->ids, both);
  EXPECT_EQ(pair->second_part, -1);
  EXPECT_EQ(pair->second, second.size());
}

}  // namespace
}  // namespace espalier::pair_template_test
