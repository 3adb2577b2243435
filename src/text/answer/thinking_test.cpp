// Thinking and answer of models that call no tools.
#include <gtest/gtest.h>

#include "text/answer/answer_parser.h"

namespace espalier {
namespace {

Answer split(std::string_view text, std::string_view name) {
  AnswerOptions options;
  options.thinking = thinking_format(name, "name").value();
  return parse_answer(text, options);
}

Answer divided(std::string thinking, std::string content) {
  return {std::move(thinking), std::move(content), {}};
}

TEST(Reasoning, IsWhatStandsBetweenTheMarks) {
  EXPECT_EQ(split("<think>hm\n</think>\n\nyes", "qwen3"), divided("hm", "yes"));
  EXPECT_EQ(split(" \n<think>\n a  b \n</think> yes ", "QWEN3"), divided("a  b", " yes "));
  EXPECT_EQ(split("◁think▷ja◁/think▷nein", "kimi"), divided("ja", "nein"));
  EXPECT_EQ(split("<think></think>yes", "qwen3"), divided("", "yes"));
}

TEST(Reasoning, IsAllThatCameWhereItWasNotEnded) {
  EXPECT_EQ(split("<think>hm, </thi", "qwen3"), divided("hm, </thi", ""));
  EXPECT_EQ(split("hm", "deepseek-r1"), divided("hm", ""));
  EXPECT_EQ(split("<thi", "deepseek-r1"), divided("<thi", ""));
}

TEST(Reasoning, NeedsAMarkWhereTheModelDoesNotBeginInside) {
  EXPECT_EQ(split("  yes</think>", "qwen3"), divided("", "  yes</think>"));
  EXPECT_EQ(split("yes <think>no", "qwen3"), divided("", "yes <think>no"));
  EXPECT_EQ(split("hm</think>yes", "deepseek-r1"), divided("hm", "yes"));
  EXPECT_EQ(split("<thi", "qwen3"), divided("", "<thi"));
}

TEST(Reasoning, OfAnUnknownFamilyIsRefusedWithTheKnownOnes) {
  const auto format = thinking_format("oracle", "reasoning_parser");
  ASSERT_FALSE(format.ok());
  EXPECT_EQ(format.error().field, "reasoning_parser");
  EXPECT_NE(format.error().message.find("qwen3"), std::string::npos);
}

}  // namespace
}  // namespace espalier
