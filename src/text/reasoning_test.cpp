// Thinking and answer are the same however the text was cut into pieces.
#include "text/reasoning.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/data.h"

namespace espalier {
namespace {

Reasoned split(std::string_view text, std::string_view name) {
  return split_reasoning(text, reasoning_marks(name, "name").value());
}

TEST(Reasoning, IsWhatStandsBetweenTheMarks) {
  EXPECT_EQ(split("<think>hm\n</think>\n\nyes", "qwen3"), (Reasoned{"hm", "yes"}));
  EXPECT_EQ(split(" \n<think>\n a  b \n</think> yes ", "QWEN3"), (Reasoned{"a  b", " yes "}));
  EXPECT_EQ(split("◁think▷ja◁/think▷nein", "kimi"), (Reasoned{"ja", "nein"}));
  EXPECT_EQ(split("<think></think>yes", "qwen3"), (Reasoned{"", "yes"}));
}

TEST(Reasoning, IsAllThatCameWhereItWasNotEnded) {
  EXPECT_EQ(split("<think>hm, </thi", "qwen3"), (Reasoned{"hm, </thi", ""}));
  EXPECT_EQ(split("hm", "deepseek-r1"), (Reasoned{"hm", ""}));
  EXPECT_EQ(split("<thi", "deepseek-r1"), (Reasoned{"<thi", ""}));
}

TEST(Reasoning, NeedsAMarkWhereTheModelDoesNotBeginInside) {
  EXPECT_EQ(split("  yes</think>", "qwen3"), (Reasoned{"", "  yes</think>"}));
  EXPECT_EQ(split("yes <think>no", "qwen3"), (Reasoned{"", "yes <think>no"}));
  EXPECT_EQ(split("hm</think>yes", "deepseek-r1"), (Reasoned{"hm", "yes"}));
  EXPECT_EQ(split("<thi", "qwen3"), (Reasoned{"", "<thi"}));
}

TEST(Reasoning, OfAnUnknownFamilyIsRefusedWithTheKnownOnes) {
  const auto marks = reasoning_marks("oracle", "reasoning_parser");
  ASSERT_FALSE(marks.ok());
  EXPECT_EQ(marks.error().field, "reasoning_parser");
  EXPECT_NE(marks.error().message.find("qwen3"), std::string::npos);
}

// The thinking may end in blanks or in what begins like a mark: what is said of a piece is never taken back.
TEST(Reasoning, IsTheSameForEveryCut) {
  std::mt19937_64 random(testing::seed());
  const std::vector<std::string> parts{"<think>", "</think>", "<thi", "</", "nk>", " ", "\n", "a", "bc", "<", ">"};
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto n = random() % 9; n > 0; --n) text += parts[random() % parts.size()];
    for (const char* name : {"qwen3", "deepseek-r1"}) {
      ReasoningSplitter splitter(reasoning_marks(name, "").value());
      Reasoned all;
      const auto add = [&](const Reasoned& more) {
        all.thinking += more.thinking;
        all.answer += more.answer;
      };
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = std::min<std::size_t>(1 + random() % 4, text.size() - at);
        add(splitter.feed(std::string_view(text).substr(at, length)));
        at += length;
      }
      add(splitter.finish());
      ASSERT_EQ(all, split(text, name)) << name << ": " << text;
    }
  }
}

}  // namespace
}  // namespace espalier
