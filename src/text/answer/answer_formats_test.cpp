// Names of formats, marks in templates, and values without quotes.
#include <gtest/gtest.h>

#include "text/answer/call_format.h"
#include "text/answer/call_tools.h"
#include "text/answer/calls/literal_value.h"
#include "text/answer/thinking_format.h"

namespace espalier::answer_formats_test {
namespace {

TEST(CallFormat, KnowsTheNamesOfOtherServers) {
  for (const std::string_view name : {"hermes",
                                      "qwen",
                                      "qwen25",
                                      "trinity",
                                      "llama3",
                                      "llama3_json",
                                      "llama4_json",
                                      "pythonic",
                                      "llama4_pythonic",
                                      "lfm2",
                                      "mistral",
                                      "qwen3_coder",
                                      "qwen3_xml",
                                      "step3p5",
                                      "nanbeige",
                                      "mimo",
                                      "glm",
                                      "glm45",
                                      "glm47",
                                      "ling3",
                                      "hunyuan",
                                      "hunyuan_a13b",
                                      "deepseekv3",
                                      "deepseek_v3",
                                      "deepseekv31",
                                      "deepseek_v31",
                                      "deepseekv32",
                                      "deepseek_v32",
                                      "deepseekv4",
                                      "deepseek_v4",
                                      "kimi_k2",
                                      "gpt-oss",
                                      "openai",
                                      "minimax-m2",
                                      "minimax_m2",
                                      "minimax",
                                      "gemma4",
                                      "functiongemma",
                                      "granite",
                                      "granite-20b-fc",
                                      "granite4",
                                      "nemotron",
                                      "nemotron_json",
                                      "nemotron_3",
                                      "internlm",
                                      "interns1",
                                      "phi4_mini_json",
                                      "jamba",
                                      "xlam",
                                      "ernie45",
                                      "seed_oss",
                                      "olmo3",
                                      "apertus",
                                      "apertus2509",
                                      "cohere_command3",
                                      "cohere_command4",
                                      "gigachat3",
                                      "step3",
                                      "minicpm5",
                                      "dots",
                                      "apriel",
                                      "longcat",
                                      "json",
                                      "hy_v3",
                                      "poolside_v1",
                                      "Hermes",
                                      "QWEN3-CODER"})
    EXPECT_TRUE(call_format(name, "tool_call_parser").ok()) << name;
  EXPECT_EQ(*call_format("qwen25", ""), *call_format("hermes", ""));
  const auto unknown = call_format("nobody", "tool_call_parser");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().field, "tool_call_parser");
  EXPECT_NE(unknown.error().message.find("hermes"), std::string::npos);
}

// A set of marks that are looked for at once must tell them apart.
TEST(CallFormat, HasNoMarkWithinAnother) {
  for (const CallFormat& format : call_formats())
    for (const auto& texts : {format.opens, format.ends, format.name_ends})
      for (const std::string_view one : texts)
        for (const std::string_view other : texts)
          if (!one.empty() && !other.empty() && one.data() != other.data()) {
            EXPECT_FALSE(other.starts_with(one)) << format.name;
          }
}

TEST(ThinkingFormat, KnowsTheNamesOfOtherServers) {
  for (const std::string_view name : {"deepseek-r1",
                                      "deepseek_r1",
                                      "deepseek-v3",
                                      "deepseek_v3",
                                      "deepseek-v4",
                                      "deepseek_v4",
                                      "glm45",
                                      "glm47",
                                      "gpt-oss",
                                      "openai_gptoss",
                                      "kimi",
                                      "kimi_k2",
                                      "qwen3",
                                      "qwen3-thinking",
                                      "minimax",
                                      "minimax_m2",
                                      "minimax-append-think",
                                      "minimax_m2_append_think",
                                      "minimax-m3",
                                      "minimax_m3",
                                      "step3",
                                      "step3p5",
                                      "mistral",
                                      "nemotron_3",
                                      "nemotron_v3",
                                      "interns1",
                                      "gemma4",
                                      "cohere_command3",
                                      "cohere_command4",
                                      "ernie45",
                                      "granite",
                                      "holo2",
                                      "hunyuan",
                                      "hunyuan_a13b",
                                      "hy_v3",
                                      "mimo",
                                      "olmo3",
                                      "seed_oss",
                                      "apertus2509",
                                      "poolside_v1",
                                      "telechat4"})
    EXPECT_TRUE(thinking_format(name, "reasoning_parser").ok()) << name;
  EXPECT_FALSE(thinking_format("nobody", "reasoning_parser").ok());
}

TEST(TemplateFormats, AreFoundByTheMarksOfTemplates) {
  const auto calls = [](std::string_view source) {
    const CallFormat* format = call_format_of(source);
    return format ? format->name : "";
  };
  EXPECT_EQ(calls("{{ '<tool_call>\\n{\"name\": \"' }}"), "hermes");
  EXPECT_EQ(calls("<tool_call>\n<function=example>\n<parameter=x>"), "qwen3_coder");
  EXPECT_EQ(calls("{{ '[TOOL_CALLS] [' }}"), "mistral_array");
  EXPECT_EQ(calls("{{ '[TOOL_CALLS]' + name + '[ARGS]' }}"), "mistral");
  EXPECT_EQ(calls("{{ '<|python_tag|>' + x }}"), "llama3");
  EXPECT_EQ(calls("<|tool_calls_section_begin|>"), "kimi_k2");
  EXPECT_EQ(calls("<｜tool▁calls▁begin｜> '\\n```json\\n'"), "deepseek_v3");
  EXPECT_EQ(calls("<｜tool▁calls▁begin｜>"), "deepseek_v31");
  EXPECT_EQ(calls("<|start|>assistant<|channel|>final<|message|>"), "gpt_oss");
  EXPECT_EQ(calls("<|tool_call_start|>["), "lfm2");
  EXPECT_EQ(calls("<minimax:tool_call>"), "minimax_m2");
  EXPECT_EQ(calls("<tool_call>{{name}}\n<arg_key>{{k}}</arg_key>\n<arg_value>"), "glm45");
  EXPECT_EQ(calls("<tool_call>{{name}}<arg_key>{{k}}</arg_key><arg_value>"), "glm47");
  EXPECT_EQ(calls("<start_function_call>call:"), "functiongemma");
  EXPECT_EQ(calls("<|im_start|>{{ message.content }}"), "");
  const auto thinking = [](std::string_view source) {
    const ThinkingFormat* format = thinking_format_of(source);
    return format ? format->name : "";
  };
  EXPECT_EQ(thinking("{{ '<think>\\n\\n</think>\\n\\n' }}"), "qwen3");
  EXPECT_EQ(thinking("{{ '<｜Assistant｜><think>\\n' }}"), "deepseek_r1");
  EXPECT_EQ(thinking("[THINK]"), "mistral");
  EXPECT_EQ(thinking("◁think▷"), "kimi");
  EXPECT_EQ(thinking("<|channel|>analysis<|message|>"), "gpt_oss");
  EXPECT_EQ(thinking("<|im_start|>"), "");
}

TEST(LiteralValue, TranslatesPythonsLiterals) {
  const auto json = [](std::string_view text) { return literal_json(text, LiteralDialect::python).value_or("none"); };
  EXPECT_EQ(json("'it\\'s \"x\"'"), "\"it's \\\"x\\\"\"");
  EXPECT_EQ(json("{'a': [1, 2.50, -3, 1e5, True, None, ()], \"b\": {}}"),
            "{\"a\": [1, 2.50, -3, 1e5, true, null, []], \"b\": {}}");
  EXPECT_EQ(json("[1, 2,]"), "[1, 2]");
  EXPECT_EQ(json("5."), "5.0");
  EXPECT_EQ(json("007"), "7");
  EXPECT_EQ(json("'\\q\\n'"), "\"\\\\q\\n\"");
  for (const std::string_view wrong :
       {"", "x", "[1", "1]", "{1}", "[,]", "{'a' 1}", "'a", "[1 2]", "1e", "--1", "{'a': }"})
    EXPECT_EQ(json(wrong), "none") << wrong;
}

TEST(LiteralValue, TranslatesGemmasLiterals) {
  const auto json = [](std::string_view text) { return literal_json(text, LiteralDialect::gemma).value_or("none"); };
  EXPECT_EQ(json("<|\"|>a, b} <|x<|\"|>"), "\"a, b} <|x\"");
  EXPECT_EQ(json("{k:1,<|\"|>l<|\"|>:[<|\"|><|\"|>,true, null,word here]}"),
            "{\"k\": 1, \"l\": [\"\", true, null, \"word here\"]}");
  EXPECT_EQ(json("[]"), "[]");
  EXPECT_EQ(json("{a}"), "none");
}

TEST(CallTools, TypesValuesAsTheSchemaSays) {
  const CallTools tools(
      {{"f", R"({"properties": {"s": {"type": "string"}, "i": {"type": "integer"}, "e": {"enum": ["a", 1]},
    "n": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "r": {"$ref": "#/$defs/x"}, "ring": {"$ref": "#/$defs/ring"}, "u": {}},
    "$defs": {"x": {"type": "boolean"}, "ring": {"anyOf": [{"$ref": "#/$defs/ring"}, {"$ref": "#/$defs/ring"}]}}})"},
       {"broken", "{"}});
  const auto typed = [&](std::string_view parameter, std::string_view text) {
    return typed_json(text, tools.types("f", parameter));
  };
  EXPECT_EQ(typed("s", "3"), "\"3\"");
  EXPECT_EQ(typed("s", "null"), "\"null\"");
  EXPECT_EQ(typed("i", " 3 "), "3");
  EXPECT_EQ(typed("i", "three"), "\"three\"");
  EXPECT_EQ(typed("e", "1"), "1");
  EXPECT_EQ(typed("e", "a"), "\"a\"");
  EXPECT_EQ(typed("n", "null"), "null");
  EXPECT_EQ(typed("n", "12"), "\"12\"");
  EXPECT_EQ(typed("r", "TRUE"), "true");
  EXPECT_EQ(typed("ring", "[1]"), "[1]");
  EXPECT_EQ(typed("u", "{\"a\": 1}"), "{\"a\": 1}");
  EXPECT_EQ(typed("unknown", "a\nb"), "\"a\\nb\"");
  EXPECT_TRUE(tools.contains("broken"));
  EXPECT_FALSE(tools.contains("g"));
}

}  // namespace
}  // namespace espalier::answer_formats_test
