// Outputs of the formats whose calls are JSON objects.
#include "text/answer/answer_fixtures.h"

namespace espalier::testing {
namespace {

using Fixture = AnswerFixture;

ToolCall weather(std::string arguments) {
  return {"get_weather", std::move(arguments), {}};
}
ToolCall search(std::string arguments) {
  return {"search", std::move(arguments), {}};
}

const std::vector<Fixture>& fixtures() {
  static const std::vector<Fixture> all = {
      // hermes
      {"hermes", "", R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris"}}
</tool_call>)",
       {"", "", {weather(R"({"city": "Paris"})")}}},
      {"qwen25", "", R"(<tool_call>{"name":"get_weather","arguments":{}}</tool_call>)", {"", "", {weather("{}")}}},
      {"qwen", "", R"(<tool_call>{"name": "get_weather"}</tool_call>)", {"", "", {weather("{}")}}},
      {"qwen", "", R"(<tool_call>{"name": "get_weather", "arguments": null}</tool_call>)", {"", "", {weather("{}")}}},
      {"trinity", "", R"(<tool_call>{"arguments": {"city": "Rome"}, "name": "get_weather"}</tool_call>)",
       {"", "", {weather(R"({"city": "Rome"})")}}},
      {"hermes", "", R"(<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"K\u00f6ln\"}"}</tool_call>)",
       {"", "", {weather("{\"city\": \"Köln\"}")}}},
      {"hermes", "", R"(I will look: <tool_call>
{"name": "get_weather", "arguments": {"city": "</tool_call> \"{", "days": [1, {"a": "}"}]}}
</tool_call>
Then we see.)",
       {"", "I will look: \nThen we see.", {weather(R"({"city": "</tool_call> \"{", "days": [1, {"a": "}"}]})")}}},
      {"hermes", "", R"(<tool_call>{"name": "get_weather", "arguments": {"city": "A"}}</tool_call><tool_call>{"name": "search", "parameters": {"query": "b"}}</tool_call>)",
       {"", "", {weather(R"({"city": "A"})"), search(R"({"query": "b"})")}}},
      {"hermes", "", R"(<tool_call>
{"name": "get_weather", "arguments": {"city": "A"}}
{"name": "search", "arguments": {"query": "b"}}
</tool_call>)",
       {"", "", {weather(R"({"city": "A"})"), search(R"({"query": "b"})")}}},
      // the closing brace is missing; one too many; the end mark is missing
      {"hermes", "", R"(<tool_call>{"name": "get_weather", "arguments": {"city": "A"}</tool_call> ok)",
       {"", "ok", {weather(R"({"city": "A"})")}}},
      {"hermes", "", R"(<tool_call>{"name": "get_weather", "arguments": {"city": "A"}}}</tool_call>)",
       {"", "", {weather(R"({"city": "A"})")}}},
      {"hermes", "", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"A\"}}\nSo it is.",
       {"", "So it is.", {weather(R"({"city": "A"})")}}},
      {"hermes", "", R"(<tool_call>{"name": "get_weather", "arguments": {"city": "A"}}<tool_call>{"name": "search", "arguments": {}}</tool_call>)",
       {"", "", {weather(R"({"city": "A"})"), search("{}")}}},
      {"hermes", "", R"(<tool_call>{"name": "get_weather", "arguments": {"city": "A"}} Well.</tool_call> Bye.)",
       {"", "Well. Bye.", {weather(R"({"city": "A"})")}}},
      // cut, broken
      {"hermes", "", R"(<tool_call>{"name": "get_weather", "arguments": {"city": "Par)",
       {"", "", {weather(R"({"city": "Par)")}}},
      {"hermes", "", R"(<tool_call>{"name": "get_weather", "arguments": {"city": Paris}}</tool_call> done)",
       {"", "done", {weather(R"({"city": Paris}})")}}},
      {"hermes", "", R"(<tool_call>{"name": "get_wea)", {"", R"(<tool_call>{"name": "get_wea)", {}}},
      {"hermes", "", R"(<tool_call>{"name": get_weather}</tool_call>)",
       {"", R"(<tool_call>{"name": get_weather}</tool_call>)", {}}},
      {"hermes", "", R"(<tool_call>{"city": "Paris"}</tool_call>)", {"", R"(<tool_call>{"city": "Paris"}</tool_call>)", {}}},
      {"hermes", "", R"(Use <tool_call> tags: <tool_call>{"name": "get_weather", "arguments": {}}</tool_call>)",
       {"", "Use <tool_call> tags:", {weather("{}")}}},
      {"hermes", "", "a < b and <tool is", {"", "a < b and <tool is", {}}},
      {"hermes", "", R"(JSON: {"name": "get_weather", "arguments": {}})",
       {"", R"(JSON: {"name": "get_weather", "arguments": {}})", {}}},
      {"hermes", "", "<tool_call>{\"name\": \"run\", \"arguments\": {\"code\": \"a\nb\"}}</tool_call>",
       {"", "", {{"run", R"({"code": "a\nb"})", {}}}}},
      {"hermes", "", R"(<tool_call>{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "A"}}}</tool_call>)",
       {"", "", {weather(R"({"city": "A"})")}}},
      {"hermes", "", R"(<tool_call>{"name": "no such tool", "arguments": {}}</tool_call>)", {"", "", {{"no such tool", "{}", {}}}}},
      {"hermes", "", "<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": \"日本 😀\"}}</tool_call>",
       {"", "", {search("{\"query\": \"日本 😀\"}")}}},
      {"granite4", "", R"(<tool_call>
{"name": "get_weather", "arguments": "{\"city\": \"A\"}"}
</tool_call>)",
       {"", "", {weather(R"({"city": "A"})")}}},
      // with thinking
      {"hermes", "qwen3", "<think>\nHm.\n</think>\n\nSo:\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>",
       {"Hm.", "So:", {weather("{}")}}},
      {"hermes", "qwen3", "<think>Hm. <tool_call>{\"name\": \"get_weather\", \"arguments\": {}}</tool_call></think>Well.",
       {"Hm.", "Well.", {weather("{}")}}},
      {"hermes", "qwen3", "<think>One writes <tool_call> for it.</think>Yes.", {"One writes <tool_call> for it.", "Yes.", {}}},
      {"hermes", "deepseek-r1", "It is <tool_call>{\"name\": \"search\", \"arguments\": {}}</tool_call></think>Yes.",
       {"It is <tool_call>{\"name\": \"search\", \"arguments\": {}}</tool_call>", "Yes.", {}}},
      {"ernie45", "ernie45", "abc\n</think>\n\n\n<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"x\"}}\n</tool_call>\n",
       {"abc", "", {search(R"({"query": "x"})")}}},
      {"ernie45", "ernie45", "abc\n</think>\n\n\n<response>\nHello\n</response>\n", {"abc", "Hello\n\n", {}}},
      // llama3
      {"llama3", "", R"({"name": "get_weather", "parameters": {"city": "A"}})", {"", "", {weather(R"({"city": "A"})")}}},
      {"llama3_json", "", R"(<|python_tag|>{"name": "get_weather", "parameters": {"city": "A"}}; {"type": "function", "name": "search", "parameters": {"query": "q"}})",
       {"", "", {weather(R"({"city": "A"})"), search(R"({"query": "q"})")}}},
      {"llama4_json", "", R"(Sure. <|python_tag|>{"name": "get_weather", "arguments": {}})", {"", "Sure.", {weather("{}")}}},
      {"llama3", "", R"({"name": "Alice", "age": 30})", {"", R"({"name": "Alice", "age": 30})", {}}},
      {"llama3", "", R"({"a": [1, 2], "b": {}} is JSON.)", {"", R"({"a": [1, 2], "b": {}} is JSON.)", {}}},
      {"llama3", "", "{ braces in prose }", {"", "{ braces in prose }", {}}},
      {"llama3", "", R"({"name": "get_weather", "parameters": {"city": "A"}} is what I would call)",
       {"", "is what I would call", {weather(R"({"city": "A"})")}}},
      {"llama3", "", R"( [{"name": "get_weather", "parameters": {}}])", {"", "", {weather("{}")}}},
      // json
      {"json", "", R"([{"name": "get_weather", "parameters": {"city": "A"}}, {"name": "search", "parameters": {"query": "b"}}])",
       {"", "", {weather(R"({"city": "A"})"), search(R"({"query": "b"})")}}},
      {"json", "", R"({"name": "get_weather", "arguments": {"city": "A", "days": 2}})",
       {"", "", {weather(R"({"city": "A", "days": 2})")}}},
      {"json", "", R"([])", {"", "[]", {}}},
      {"json", "", R"([{"name": "get_weather", "parameters": {"ci)", {"", "", {weather(R"({"ci)")}}},
      {"json", "qwen3", "<think>a</think>[{\"name\": \"search\", \"parameters\": {}}]", {"a", "", {search("{}")}}},
      // arrays between marks
      {"jamba", "", R"(<tool_calls>[{"name": "get_weather", "arguments": {"city": "A"}}]</tool_calls>)",
       {"", "", {weather(R"({"city": "A"})")}}},
      {"apriel", "", R"(Hm. <tool_calls>[{"name": "get_weather", "arguments": {}, "id": "0"}, {"name": "search", "arguments": {}}]</tool_calls>)",
       {"", "Hm.", {weather("{}"), search("{}")}}},
      {"hunyuan_a13b", "hunyuan_a13b", "<think>\nt\n</think>\n<answer>\nHi.\n</answer>", {"t", "Hi.\n", {}}},
      {"minimax", "", "<tool_calls>\n{\"name\": \"search\", \"arguments\": {}}\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_calls>",
       {"", "", {search("{}"), {"add", R"({"a": 1})", {}}}}},
      {"jamba", "", "<tool_calls>[]</tool_calls>", {"", "", {}}},
      {"nemotron", "", R"(<TOOLCALL>[{"name": "get_weather", "arguments": {"city": "A"}}]</TOOLCALL>)",
       {"", "", {weather(R"({"city": "A"})")}}},
      {"nemotron_json", "", R"(<TOOLCALL>{"name": "search", "arguments": {}}</TOOLCALL>)", {"", "", {search("{}")}}},
      {"longcat", "", "<longcat_tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"a\"}}\n</longcat_tool_call>",
       {"", "", {search(R"({"query": "a"})")}}},
      {"internlm", "", "Ok.<|action_start|> <|plugin|>\n{\"name\": \"search\", \"parameters\": {\"query\": \"a\"}}<|action_end|>",
       {"", "Ok.", {search(R"({"query": "a"})")}}},
      {"interns1", "interns1", "<think>x</think><|action_start|><|plugin|>{\"name\": \"search\", \"parameters\": {}}<|action_end|>\n",
       {"x", "", {search("{}")}}},
      {"granite", "", R"(<|tool_call|>[{"name": "search", "arguments": {"query": "a"}}])", {"", "", {search(R"({"query": "a"})")}}},
      {"granite", "granite", "Here is my thought process: a. Here is my response: <tool_call>[{\"name\": \"search\", \"arguments\": {}}]",
       {"a.", "", {search("{}")}}},
      {"granite", "", "[1] is a reference", {"", "[1] is a reference", {}}},
      {"granite-20b-fc", "", R"(<function_call> {"name": "search", "arguments": {"query": "a"}}<function_call> {"name": "add", "arguments": {}})",
       {"", "", {search(R"({"query": "a"})"), {"add", "{}", {}}}}},
      {"phi4_mini_json", "", R"(functools[{"name": "search", "arguments": {"query": "a"}}])", {"", "", {search(R"({"query": "a"})")}}},
      {"phi4_mini_json", "", "import functools\nfunctools.reduce(f, [1])", {"", "import functools\nfunctools.reduce(f, [1])", {}}},
      {"apertus", "", R"(<|tools_prefix|>[{"search": {"query": "a"}}, {"get_weather": {}}]<|tools_suffix|>)",
       {"", "", {search(R"({"query": "a"})"), weather("{}")}}},
      {"apertus2509", "apertus2509", "<|inner_prefix|>hm<|inner_suffix|>Hi", {"hm", "Hi", {}}},
      {"cohere_command4", "cohere_command4", "plan<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"search\", \"parameters\": {\"query\": \"a\"}}\n]<|END_ACTION|>",
       {"plan", "", {search(R"({"query": "a"})")}}},
      {"cohere_command4", "cohere_command4", "<|START_THINKING|>plan<|END_THINKING|><|START_TEXT|>Hi there<|END_TEXT|>", {"plan", "Hi there", {}}},
      {"cohere_command3", "cohere_command3", "plan<|START_RESPONSE|>Hi<|END_RESPONSE|>", {"plan", "Hi", {}}},
      {"gigachat3", "", "Ok<|message_sep|>function call<|role_sep|>\n{\"name\": \"search\", \"arguments\": {\"query\": \"a\"}}",
       {"", "Ok", {search(R"({"query": "a"})")}}},
      {"gigachat3", "", "<|function_call|>{\"name\": \"search\", \"arguments\": {}}", {"", "", {search("{}")}}},
      {"xlam", "", R"([{"name": "search", "arguments": {"query": "a"}}])", {"", "", {search(R"({"query": "a"})")}}},
      {"xlam", "", "Look:\n```json\n[{\"name\": \"search\", \"arguments\": {}}]\n```\nDone", {"", "Look:\n\nDone", {search("{}")}}},
      {"xlam", "", "```json\n{\"a\": 1}\n```", {"", "```json\n{\"a\": 1}\n```", {}}},
      {"xlam", "", R"([TOOL_CALLS][{"name": "search", "arguments": {}}])", {"", "", {search("{}")}}},
  };
  return all;
}

}  // namespace

std::span<const AnswerFixture> json_fixtures() {
  return fixtures();
}

}  // namespace espalier::testing
