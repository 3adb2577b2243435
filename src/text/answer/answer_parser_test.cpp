#include "text/answer/answer_parser.h"

#include <gtest/gtest.h>

#include "text/answer/fixtures/answer_cuts.h"
#include "text/answer/fixtures/answer_fixtures.h"

namespace espalier::answer_parser_test {
namespace {

using testing::AnswerFixture;
using testing::cut_answer;
using testing::expect_same_however_cut;
using testing::options_of;

void expect_fixtures(std::span<const AnswerFixture> fixtures) {
  for (const AnswerFixture& fixture : fixtures) {
    const AnswerOptions options = options_of(fixture.calls, fixture.thinking, testing::fixture_tools());
    EXPECT_EQ(parse_answer(fixture.text, options), fixture.answer) << fixture.calls << ": " << fixture.text;
    expect_same_however_cut(fixture.text, options);
  }
}

TEST(AnswerParser, ReadsOutputsWithJsonCalls) {
  expect_fixtures(testing::json_fixtures());
}

TEST(AnswerParser, ReadsOutputsWithTaggedCalls) {
  expect_fixtures(testing::tag_fixtures());
}

TEST(AnswerParser, ReadsOutputsOfTheOtherFormats) {
  expect_fixtures(testing::other_fixtures());
}

TEST(AnswerParser, TellsCallsAndPiecesAsSoonAsTheyAreCertain) {
  AnswerParser parser(options_of("hermes"));
  const auto feed = [&](std::string_view piece) { return fold(parser.feed(piece)); };
  EXPECT_EQ(feed("Hello"), (Answer{"", "Hello", {}}));
  EXPECT_EQ(feed(" <"), (Answer{}));
  EXPECT_EQ(feed("b>"), (Answer{"", " <b>", {}}));
  EXPECT_EQ(feed("\n<tool_call>{\"name\": \"f\""), (Answer{}));
  EXPECT_EQ(parser.feed(", \"arguments\": {\"a"),
            (std::vector<AnswerEvent>{CallBegun{0, "f", ""}, ArgumentsPiece{0, "{\"a"}}));
  EXPECT_EQ(parser.feed("\": 1"), (std::vector<AnswerEvent>{ArgumentsPiece{0, "\": 1"}}));
  EXPECT_EQ(parser.feed("}}"), (std::vector<AnswerEvent>{ArgumentsPiece{0, "}"}, CallEnded{0}}));
  EXPECT_EQ(parser.feed("</tool_call>"), std::vector<AnswerEvent>());
  EXPECT_EQ(parser.finish(), std::vector<AnswerEvent>());
}

TEST(AnswerParser, PassesOnStringsOfTagsWhileTheyCome) {
  AnswerParser parser(options_of("qwen3_coder", "", testing::fixture_tools()));
  parser.feed("<tool_call>\n<function=run>\n<parameter=code>\n");
  EXPECT_EQ(parser.feed("a \"b\"\n"), (std::vector<AnswerEvent>{ArgumentsPiece{0, "a \\\"b\\\""}}));
  EXPECT_EQ(parser.feed("c"), (std::vector<AnswerEvent>{ArgumentsPiece{0, "\\nc"}}));
}

TEST(AnswerParser, BeginsWhereThePromptSays) {
  AnswerOptions options = options_of("hermes", "qwen3");
  options.begins = AnswerBegins::inside_thinking;
  EXPECT_EQ(parse_answer("Hm.</think>Yes", options), (Answer{"Hm.", "Yes", {}}));
  EXPECT_EQ(parse_answer("<think>Hm.</think>Yes", options), (Answer{"Hm.", "Yes", {}}));
  options.begins = AnswerBegins::in_answer;
  EXPECT_EQ(parse_answer("\n<think> means nothing here", options), (Answer{"", "\n<think> means nothing here", {}}));
  options = options_of("", "deepseek-r1");
  options.begins = AnswerBegins::in_answer;
  EXPECT_EQ(parse_answer("{\"a\": 1}", options), (Answer{"", "{\"a\": 1}", {}}));
  options = options_of("gpt-oss", "gpt-oss");
  options.begins = AnswerBegins::in_answer;
  EXPECT_EQ(parse_answer("go on<|return|>", options), (Answer{"", "go on", {}}));
  options.begins = AnswerBegins::inside_thinking;
  EXPECT_EQ(parse_answer("hm<|end|><|start|>assistant<|channel|>final<|message|>so", options),
            (Answer{"hm", "so", {}}));
}

TEST(AnswerParser, SaysWhetherItIsWithinThinking) {
  AnswerParser parser(options_of("hermes", "qwen3"));
  parser.feed("<think>Hm");
  EXPECT_TRUE(parser.thinks());
  parser.feed(" </thi");
  EXPECT_TRUE(parser.thinks());
  parser.feed("nk>");
  EXPECT_FALSE(parser.thinks());
}

TEST(AnswerParser, TakesCallsOfUnknownToolsAsTextWhereAsked) {
  const std::string text = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  AnswerOptions options = options_of("hermes", "", testing::fixture_tools());
  EXPECT_EQ(parse_answer(text, options).calls.size(), 1u);
  options.only_known_tools = true;
  EXPECT_EQ(parse_answer(text, options), (Answer{"", text, {}}));
  EXPECT_EQ(parse_answer(R"(<tool_call>{"name": "add", "arguments": {}}</tool_call>)", options).calls.size(), 1u);
}

TEST(AnswerParser, KeepsBlanksOfTextWithoutCalls) {
  for (const std::string& text : std::vector<std::string>{"  a\n\n b \n", " \n", "", std::string(10'000, ' ')})
    EXPECT_EQ(parse_answer(text, options_of("hermes")), (Answer{"", text, {}}));
}

// Marks, halves of marks and JSON in any order: the same however it is cut, and no text is lost where there is no call.
TEST(AnswerParser, ReadsMarksInAnyOrder) {
  std::mt19937_64 random(testing::seed());
  for (const CallFormat& format : call_formats()) {
    std::vector<std::string> words = {"{\"name\": \"add\", \"arguments\": {",
                                      "\"a\": 1",
                                      "}",
                                      "}",
                                      "]",
                                      "[",
                                      "add",
                                      "(a=",
                                      "1",
                                      ")",
                                      " ",
                                      "\n",
                                      "text",
                                      "<think>",
                                      "</think>",
                                      "\"",
                                      ",",
                                      "<",
                                      "call:",
                                      "日"};
    for (const std::string_view mark :
         {format.opens[0], format.opens[1], format.ends[0], format.call_begin, format.call_end, format.name_ends[0],
          format.key_begin, format.key_ends[0], format.value_begin, format.value_end, format.wire.begin,
          format.wire.end, format.wire.arguments_prefix})
      if (!mark.empty()) words.insert(words.end(), {std::string(mark), std::string(mark.substr(0, mark.size() / 2))});
    for (int round = 0; round < 60; ++round) {
      std::string text;
      for (std::size_t i = random() % 14; i > 0; --i) text += words[random() % words.size()];
      const AnswerOptions options{
          .calls = &format, .thinking = *thinking_format("qwen3", ""), .tools = testing::fixture_tools()};
      const Answer whole = parse_answer(text, options);
      ASSERT_EQ(cut_answer(text, options, {1}), whole) << format.name << " seed " << testing::seed() << ": " << text;
      ASSERT_EQ(cut_answer(text, options, {3, 1, 5, 2, 11}), whole) << format.name << ": " << text;
    }
  }
}

// Work is bounded by the length, whatever is written.
TEST(AnswerParser, ReadsMegabytesOfWhateverIsWorst) {
  const auto repeated = [](std::string_view text, std::size_t size) {
    std::string out;
    while (out.size() < size) out += text;
    return out;
  };
  const std::string nested = "<tool_call>{\"name\": \"f\", \"arguments\": " + repeated("{\"a\": [", 1 << 20);
  EXPECT_EQ(parse_answer(nested, options_of("hermes")).calls.size(), 1u);
  for (const std::string_view again :
       {"<tool_call>", "<tool_call>{\"a\": \"", "<tool_call>{\"arguments\": {\"x\": [", "<", " "}) {
    const std::string text = repeated(again, 1 << 20);
    EXPECT_EQ(parse_answer(text, options_of("hermes")), (Answer{"", text, {}}));
  }
  const std::string value = "<tool_call><function=f><parameter=x>" + repeated("</param", 3 << 20);
  EXPECT_EQ(parse_answer(value, options_of("qwen3_coder")).calls.size(), 1u);
  const std::string python = "[f(a=" + repeated("[{'a': (", 1 << 20);
  EXPECT_EQ(parse_answer(python, options_of("pythonic")).calls.size(), 1u);
}

}  // namespace
}  // namespace espalier::answer_parser_test
