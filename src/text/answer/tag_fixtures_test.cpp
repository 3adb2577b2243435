// Outputs of the formats whose parameters stand in tags.
#include "text/answer/answer_fixtures.h"

namespace espalier::testing {
namespace {

using Fixture = AnswerFixture;

const std::vector<Fixture>& tagged() {
  static const std::vector<Fixture> all = {
      // qwen3_coder
      {"qwen3_coder",
       "",
       R"(<tool_call>
<function=get_weather>
<parameter=city>
Paris
</parameter>
<parameter=days>
3
</parameter>
<parameter=metric>
True
</parameter>
</function>
</tool_call>)",
       {"", "", {{"get_weather", R"({"city": "Paris", "days": 3, "metric": true})", {}}}}},
      {"qwen3_xml",
       "",
       "Ok.\n<tool_call>\n<function=run>\n<parameter=code>\nif a < b:\n\n  "
       "\"x\"\n</parameter>\n</function>\n</tool_call>\nDone.",
       {"", "Ok.\n\nDone.", {{"run", R"({"code": "if a < b:\n\n  \"x\""})", {}}}}},
      {"qwen3_coder",
       "",
       "<tool_call><function=get_weather></function></tool_call>",
       {"", "", {{"get_weather", "{}", {}}}}},
      {"qwen3_coder",
       "",
       "<function=get_weather><parameter=city>A</parameter></function>",
       {"", "", {{"get_weather", R"({"city": "A"})", {}}}}},
      {"qwen3_coder",
       "",
       "<tool_call><function=get_weather><parameter=city>12</parameter><parameter=days>many</parameter></function></"
       "tool_call>",
       {"", "", {{"get_weather", R"({"city": "12", "days": "many"})", {}}}}},
      {"step3p5",
       "",
       "<tool_call><function=search><parameter=limit>null</parameter><parameter=tags>[\"a\", "
       "1]</parameter><parameter=filter>{'a': True}</parameter></function></tool_call>",
       {"", "", {{"search", R"({"limit": null, "tags": ["a", 1], "filter": {"a": true}})", {}}}}},
      {"nemotron_3",
       "",
       "<tool_call><function=other><parameter=n>3</parameter><parameter=s>abc</parameter><parameter=o>{\"x\": "
       "1}</parameter></function></tool_call>",
       {"", "", {{"other", R"({"n": 3, "s": "abc", "o": {"x": 1}})", {}}}}},
      {"mimo",
       "",
       "<tool_call><function=get_weather><parameter=city>A</parameter></function></"
       "tool_call>\n<tool_call><function=search></function></tool_call>",
       {"", "", {{"get_weather", R"({"city": "A"})", {}}, {"search", "{}", {}}}}},
      {"nanbeige",
       "",
       "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"a\"}}\n</tool_call>",
       {"", "", {{"search", R"({"query": "a"})", {}}}}},
      {"qwen3_coder",
       "",
       "<tool_call><function=get_weather><parameter=city>Par",
       {"", "", {{"get_weather", R"({"city": "Par)", {}}}}},
      {"qwen3_coder",
       "",
       "<tool_call><function=get_weather><parameter=city>Par</parameter>",
       {"", "", {{"get_weather", R"({"city": "Par"})", {}}}}},
      {"qwen3_coder",
       "",
       "<tool_call><function=get_weather><parameter=city>A</parameter></tool_call> Bye",
       {"", "Bye", {{"get_weather", R"({"city": "A"})", {}}}}},
      {"qwen3_coder",
       "",
       "<tool_call><function=get_weather>city is A</function></tool_call>",
       {"", "", {{"get_weather", "city is A", {}}}}},
      {"qwen3_coder", "", "<tool_call>a call</tool_call>", {"", "<tool_call>a call</tool_call>", {}}},
      {"qwen3_coder", "", "<tool_call><function=", {"", "<tool_call><function=", {}}},
      {"qwen3_coder",
       "qwen3",
       "<think>\nHm\n<tool_call>\n<function=search>\n</function>\n</tool_call>",
       {"Hm", "", {{"search", "{}", {}}}}},
      {"qwen3_coder",
       "",
       "<tool_call><function=run><parameter=code></tool_call><function=x></parameter></function></tool_call>",
       {"", "", {{"run", R"({"code": "</tool_call><function=x>"})", {}}}}},
      {"qwen3_coder",
       "",
       "<tool_call><function=run><parameter=code>\n\n</parameter></function></tool_call>",
       {"", "", {{"run", R"({"code": ""})", {}}}}},
      {"seed_oss",
       "seed_oss",
       "t</seed:think><seed:tool_call>\n<function=search>\n<parameter=query>a</parameter>\n</function>\n</"
       "seed:tool_call>",
       {"t", "", {{"search", R"({"query": "a"})", {}}}}},
      // invoke
      {"minimax-m2",
       "minimax_m2",
       "t\n</think>\n\nOk.\n\n<minimax:tool_call>\n<invoke name=\"search\">\n<parameter name=\"query\">a "
       "\"b\"</parameter>\n<parameter name=\"limit\">5</parameter>\n</invoke>\n<invoke "
       "name=\"add\">\n</invoke>\n</minimax:tool_call>\n",
       {"t", "Ok.", {{"search", R"({"query": "a \"b\"", "limit": 5})", {}}, {"add", "{}", {}}}}},
      {"minimax_m2", "", "<minimax:tool_call></minimax:tool_call>", {"", "", {}}},
      {"dots",
       "",
       "<dots_function_call>\n<invoke name=\"search\">\n<parameter "
       "name=\"query\">a</parameter>\n</invoke>\n</dots_function_call>",
       {"", "", {{"search", R"({"query": "a"})", {}}}}},
      {"dots",
       "",
       "<dots_function_call>{\"name\": \"search\", \"arguments\": {}}</dots_function_call>",
       {"", "", {{"search", "{}", {}}}}},
      {"deepseekv32",
       "",
       "Let me see.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"search\">\n<｜DSML｜parameter name=\"query\" "
       "string=\"true\">5</｜DSML｜parameter>\n<｜DSML｜parameter name=\"limit\" "
       "string=\"false\">5</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       {"", "Let me see.", {{"search", R"({"query": "5", "limit": 5})", {}}}}},
      {"deepseek_v32",
       "",
       "<｜DSML｜function_calls><｜DSML｜invoke name=\"search\">\n{\"query\": "
       "\"a\"}\n</｜DSML｜invoke></｜DSML｜function_calls>",
       {"", "", {{"search", R"({"query": "a"})", {}}}}},
      {"deepseekv4",
       "deepseek_v4",
       "<think>t</think><｜DSML｜tool_calls><｜DSML｜invoke name=\"add\"><｜DSML｜parameter name=\"a\" "
       "string=\"false\">1.5</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
       {"t", "", {{"add", R"({"a": 1.5})", {}}}}},
      {"deepseekv4",
       "",
       "<｜DSML｜tool_calls><｜DSML｜invoke name=\"search\">{\"query\": \"a\", ]</｜DSML｜invoke></｜DSML｜tool_calls>",
       {"", "", {{"search", R"({"query": "a", ])", {}}}}},
      {"step3",
       "",
       "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke "
       "name=\"search\">\n<steptml:parameter "
       "name=\"query\">a</steptml:parameter>\n</steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>x",
       {"", "x", {{"search", R"({"query": "a"})", {}}}}},
      {"minicpm",
       "",
       "<function name=\"run\"><param name=\"code\"><![CDATA[a\n<b>]]></param></function> ok",
       {"", "ok", {{"run", R"({"code": "a\n<b>"})", {}}}}},
      {"minicpm5",
       "",
       "<function name=\"add\"><param name=\"a\">1</param><param name=\"b\">2</param></function><function "
       "name=\"search\"></function>",
       {"", "", {{"add", R"({"a": 1, "b": 2})", {}}, {"search", "{}", {}}}}},
      // glm and hunyuan
      {"glm45",
       "glm45",
       "<think>t</think>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>北京</arg_value>\n<arg_key>days</"
       "arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
       {"t", "", {{"get_weather", "{\"city\": \"北京\", \"days\": 2}", {}}}}},
      {"glm47",
       "glm45",
       "<think>t<tool_call>get_weather<arg_key>city</arg_key><arg_value>A</arg_value></tool_call><tool_call>search</"
       "tool_call>",
       {"t", "", {{"get_weather", R"({"city": "A"})", {}}, {"search", "{}", {}}}}},
      {"glm",
       "",
       "<tool_call> is a tag, <tool_call>too</tool_call>",
       {"", "<tool_call> is a tag,", {{"too", "{}", {}}}}},
      {"ling3",
       "",
       "<tool_call>\nsearch\n<arg_key>query</arg_key>\n<arg_value>line 1\nline 2</arg_value>\n</tool_call>",
       {"", "", {{"search", R"({"query": "line 1\nline 2"})", {}}}}},
      {"glm45",
       "",
       "<tool_call>search<arg_key>query</arg_key> none</tool_call>x",
       {"", "x", {{"search", R"({"query": none)", {}}}}},
      {"glm45",
       "",
       "<tool_call>search<arg_key>tags</arg_key><arg_value>[1, 2",
       {"", "", {{"search", R"({"tags": [1, 2)", {}}}}},
      {"hunyuan",
       "hunyuan",
       "<think>t</think><tool_calls>\n<tool_call>search<tool_sep>\n<arg_key>query</arg_key>\n<arg_value>a</"
       "arg_value>\n</tool_call>\n<tool_call>add<tool_sep>\n</tool_call>\n</tool_calls>",
       {"t", "", {{"search", R"({"query": "a"})", {}}, {"add", "{}", {}}}}},
      {"hy_v3", "", "<tool_calls>none</tool_calls>", {"", "<tool_calls>none</tool_calls>", {}}},
  };
  return all;
}

}  // namespace

std::span<const AnswerFixture> tag_fixtures() {
  return tagged();
}

}  // namespace espalier::testing
