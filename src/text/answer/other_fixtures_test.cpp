// Outputs of the other formats: a name and JSON, keywords, channels.
#include "text/answer/answer_fixtures.h"

namespace espalier::testing {
namespace {

using Fixture = AnswerFixture;

const std::vector<Fixture>& others() {
  static const std::vector<Fixture> all = {
      // mistral
      {"mistral",
       "",
       R"([TOOL_CALLS]get_weather[ARGS]{"city": "A"})",
       {"", "", {{"get_weather", R"({"city": "A"})", {}}}}},
      {"mistral",
       "",
       R"(Ok.[TOOL_CALLS]get_weather[ARGS]{"city": "A"}[TOOL_CALLS]search[ARGS]{})",
       {"", "Ok.", {{"get_weather", R"({"city": "A"})", {}}, {"search", "{}", {}}}}},
      {"mistral",
       "",
       R"([TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "A"}}, {"name": "search", "arguments": {}, "id": "abc123def"}])",
       {"", "", {{"get_weather", R"({"city": "A"})", {}}, {"search", "{}", {}}}}},
      {"mistral", "", R"([TOOL_CALLS]get_weather{"city": "A"})", {"", "", {{"get_weather", R"({"city": "A"})", {}}}}},
      {"mistral",
       "",
       R"([TOOL_CALLS]search[CALL_ID]abc123def[ARGS]{"query": "a"})",
       {"", "", {{"search", R"({"query": "a"})", "abc123def"}}}},
      {"mistral",
       "mistral",
       R"([THINK]Hm.[/THINK]So[TOOL_CALLS]search[ARGS]{"query": "[TOOL_CALLS]"})",
       {"Hm.", "So", {{"search", R"({"query": "[TOOL_CALLS]"})", {}}}}},
      {"mistral", "", "[TOOL_CALLS] are marks", {"", "[TOOL_CALLS] are marks", {}}},
      {"mistral", "", R"([TOOL_CALLS]search[ARGS]{"query": "a)", {"", "", {{"search", R"({"query": "a)", {}}}}},
      {"mistral",
       "",
       R"([TOOL_CALLS]search[ARGS]{"query": "a"} and text)",
       {"", "and text", {{"search", R"({"query": "a"})", {}}}}},
      {"mistral", "", R"([TOOL_CALLS]search[AR)", {"", R"([TOOL_CALLS]search[AR)", {}}},
      // deepseek
      {"deepseekv3",
       "",
       "Ok<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{\"query\": "
       "\"a\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{}\n```<"
       "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"", "Ok", {{"search", R"({"query": "a"})", {}}, {"add", "{}", {}}}}},
      {"deepseek_v3",
       "deepseek-r1",
       "t</think>\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search\n```json\n{\"query\": "
       "\"```\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"t", "", {{"search", R"({"query": "```"})", {}}}}},
      {"deepseek_v3", "", "<｜tool▁calls▁begin｜>nothing", {"", "<｜tool▁calls▁begin｜>nothing", {}}},
      {"deepseekv31",
       "deepseek-v3",
       "<think>t</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{\"query\": "
       "\"a\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>add<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"t", "", {{"search", R"({"query": "a"})", {}}, {"add", "{}", {}}}}},
      {"deepseek_v31",
       "",
       "<｜tool▁call▁begin｜>search<｜tool▁sep｜>{\"query\": bad}<｜tool▁call▁end｜>more",
       {"", "more", {{"search", R"({"query": bad})", {}}}}},
      {"deepseek_v31",
       "",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>search<｜tool▁sep｜>{\"query\": \"a",
       {"", "", {{"search", R"({"query": "a)", {}}}}},
      // kimi
      {"kimi_k2",
       "kimi_k2",
       "t</"
       "think>Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{"
       "\"query\": "
       "\"a\"}<|tool_call_end|><|tool_call_begin|>functions.get.weather:1<|tool_call_argument_begin|>{}<|tool_call_end|"
       "><|tool_calls_section_end|>",
       {"t",
        "Ok.",
        {{"search", R"({"query": "a"})", "functions.search:0"}, {"get.weather", "{}", "functions.get.weather:1"}}}},
      {"kimi_k2",
       "",
       "<|tool_call_begin|>search:3<|tool_call_argument_begin|>{}<|tool_call_end|>Then text",
       {"", "Then text", {{"search", "{}", "search:3"}}}},
      {"kimi_k2",
       "kimi_k2",
       "t <|tool_calls_section_begin|><|tool_call_begin|>functions.add:0 <|tool_call_argument_begin|> {\"a\": 1} "
       "<|tool_call_end|> <|tool_calls_section_end|>",
       {"t", "", {{"add", R"({"a": 1})", "functions.add:0"}}}},
      {"kimi_k2", "", "<|tool_calls_section_begin|><|tool_calls_section_end|>", {"", "", {}}},
      {"kimi_k2",
       "",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{\"query\": "
       "\"<|tool_call_end|>\"}<|tool_call_end|>",
       {"", "", {{"search", R"({"query": "<|tool_call_end|>"})", "functions.search:0"}}}},
      {"kimi_k2",
       "",
       "<|tool_call_begin|>functions.add:0<|tool_call_argument_begin|><|tool_call_end|>",
       {"", "", {{"add", "{}", "functions.add:0"}}}},
      // pythonic
      {"pythonic",
       "",
       R"([get_weather(city="A", days=3), search(query='it\'s "x"', tags=['a', None], filter={"k": (1, True)})])",
       {"",
        "",
        {{"get_weather", R"({"city": "A", "days": 3})", {}},
         {"search", R"({"query": "it's \"x\"", "tags": ["a", null], "filter": {"k": [1, true]}})", {}}}}},
      {"llama4_pythonic",
       "",
       "<|python_start|>[add(a=-1.5, b=.5)]<|python_end|>",
       {"", "", {{"add", R"({"a": -1.5, "b": 0.5})", {}}}}},
      {"pythonic", "", "[get_weather()]", {"", "", {{"get_weather", "{}", {}}}}},
      {"pythonic", "", "[1, 2, 3] is a list", {"", "[1, 2, 3] is a list", {}}},
      {"pythonic", "", "[Note](http://x.y) and [a(b)]", {"", "[Note](http://x.y) and [a(b)]", {}}},
      {"pythonic", "", "[add(1, 2)]", {"", "[add(1, 2)]", {}}},
      {"pythonic", "", "[add(a=1, b=x+1)]", {"", "", {{"add", R"({"a": 1, "b": x+1)])", {}}}}},
      {"pythonic", "", "[add(a=1, 2)]", {"", "", {{"add", R"({"a": 12)])", {}}}}},
      {"pythonic",
       "",
       "[search(query=\"a\\n\\x41\\u00e9\\U0001F600\", )]",
       {"", "", {{"search", "{\"query\": \"a\\nAé😀\"}", {}}}}},
      {"pythonic", "", "[search(query=\"cut", {"", "", {{"search", R"({"query": "cut)", {}}}}},
      {"pythonic", "", "[add(a=007, b=1_000)]\n", {"", "", {{"add", R"({"a": 7, "b": 1000})", {}}}}},
      {"lfm2",
       "",
       "Ok <|tool_call_start|>[search(query=\"a]b\")]<|tool_call_end|> done",
       {"", "Ok  done", {{"search", R"({"query": "a]b"})", {}}}}},
      {"lfm2",
       "",
       R"(<|tool_call_start|>[{"name": "search", "arguments": {"query": "a"}}]<|tool_call_end|>)",
       {"", "", {{"search", R"({"query": "a"})", {}}}}},
      {"lfm2", "", "<|tool_call_start|>[]<|tool_call_end|>", {"", "<|tool_call_start|>[]<|tool_call_end|>", {}}},
      {"olmo3",
       "olmo3",
       "t</think><function_calls>\nadd(a=1, b=2)\nsearch(query=\"x\", limit=null)\n</function_calls>",
       {"t", "", {{"add", R"({"a": 1, "b": 2})", {}}, {"search", R"({"query": "x", "limit": null})", {}}}}},
      // gemma
      {"gemma4",
       "gemma4",
       "<|channel>thought\nHm.\n<channel|>Ok.<|tool_call>call:search{query:<|\"|>a {b} "
       "\"c\"<|\"|>,limit:5,tags:[<|\"|>x<|\"|>,true],filter:{k:1.5}}<tool_call|>",
       {"Hm.",
        "Ok.",
        {{"search", R"({"query": "a {b} \"c\"", "limit": 5, "tags": ["x", true], "filter": {"k": 1.5}})", {}}}}},
      {"gemma4",
       "",
       "<|tool_call>call:add{}<tool_call|><|tool_call>call:add{a:1}<tool_call|>",
       {"", "", {{"add", "{}", {}}, {"add", R"({"a": 1})", {}}}}},
      {"gemma4",
       "",
       "<|tool_call>call:search{query:bare words}<tool_call|>x",
       {"", "x", {{"search", R"({"query": "bare words"})", {}}}}},
      {"gemma4", "", "<|tool_call>say hello<tool_call|>", {"", "<|tool_call>say hello<tool_call|>", {}}},
      {"gemma4", "", "<|tool_call>call:search{query:<|\"|>a <|", {"", "", {{"search", R"({"query": "a <|)", {}}}}},
      {"functiongemma",
       "",
       "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
       {"", "", {{"get_weather", R"({"city": "Paris"})", {}}}}},
      {"functiongemma",
       "",
       "<start_function_call>call:add{a:1,b:2}<end_function_call><start_function_response>",
       {"", "<start_function_response>", {{"add", R"({"a": 1, "b": 2})", {}}}}},
      // gpt-oss
      {"gpt-oss",
       "gpt-oss",
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
       {"Hm.", "Hello.", {}}},
      {"openai",
       "openai_gptoss",
       "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
       "<|constrain|>json<|message|>{\"city\": \"A\"}<|call|>",
       {"Need it.", "", {{"get_weather", R"({"city": "A"})", {}}}}},
      {"gpt-oss",
       "",
       " to=functions.search<|channel|>commentary json<|message|>{\"query\": \"<|call|>\"}<|call|>",
       {"", "", {{"search", R"({"query": "<|call|>"})", {}}}}},
      {"gpt-oss",
       "gpt-oss",
       "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant<|channel|>commentary "
       "to=functions.add<|message|>{}<|call|><|start|>assistant<|channel|>commentary "
       "to=functions.search<|message|>{\"query\": \"b\"}<|call|>",
       {"", "I will look.", {{"add", "{}", {}}, {"search", R"({"query": "b"})", {}}}}},
      {"gpt-oss", "gpt-oss", "Plain text without channels < a |", {"", "Plain text without channels < a |", {}}},
      {"gpt-oss", "gpt-oss", "<|channel|>analysis<|message|>Cut of", {"Cut of", "", {}}},
      {"gpt-oss", "gpt-oss", "<|channel|>analysis", {"", "", {}}},
      {"gpt-oss",
       "gpt-oss",
       "<|channel|>commentary to=functions.add<|message|><|call|>",
       {"", "", {{"add", "{}", {}}}}},
      {"gpt-oss",
       "gpt-oss",
       "<|channel|>commentary to=functions.add<|message|>{\"a\": oops}<|call|>",
       {"", "", {{"add", R"({"a": oops})", {}}}}},
      {"gpt-oss", "gpt-oss", "<|channel|>analysis to=python code<|message|>print(1)<|call|>", {"print(1)", "", {}}},
      {"",
       "gpt-oss",
       "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
       {"a", "b", {}}},
      // thinking alone
      {"", "kimi", "◁think▷Hm◁/think▷Yes", {"Hm", "Yes", {}}},
      {"", "deepseek-r1", "Hm\n</think>\n\nYes", {"Hm", "Yes", {}}},
      {"", "deepseek-r1", "never ends", {"never ends", "", {}}},
      {"", "qwen3", "no thinking </think> here", {"", "no thinking </think> here", {}}},
      {"", "minimax-append-think", "Hm</think>Yes", {"", "<think>Hm</think>Yes", {}}},
      {"", "minimax_m3", "<mm:think>Hm</mm:think>Yes", {"Hm", "Yes", {}}},
      {"", "granite", "Here's my thought process: Hm. Here's my response: Yes", {"Hm.", " Yes", {}}},
      {"", "", "<think>as it is</think> <tool_call>", {"", "<think>as it is</think> <tool_call>", {}}},
  };
  return all;
}

}  // namespace

std::span<const AnswerFixture> other_fixtures() {
  return others();
}

std::shared_ptr<const CallTools> fixture_tools() {
  return std::make_shared<const CallTools>(std::vector<CallableTool>{
      {"get_weather", R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
        "metric": {"type": "boolean"}}})"},
      {"search",
       R"({"properties": {"query": {"type": "string"}, "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "tags": {"$ref": "#/$defs/tags"}, "filter": {"type": ["object", "null"]}}, "$defs": {"tags": {"type": "array"}}})"},
      {"add", R"({"properties": {"a": {"type": "number"}, "b": {"type": "number"}}})"},
      {"run", R"({"properties": {"code": {"type": "string"}}})"}});
}

}  // namespace espalier::testing
