#include "text/chat/chat_calls.h"

#include <gtest/gtest.h>

#include "text/chat/chat_template.h"

namespace espalier {
namespace {

const std::string kTurn = "{% for m in messages %}[{{ m.role }}]{% if m.tool_calls %}";
const std::string kEnd = "{% endif %}{% endfor %}";

ChatTemplate parsed(const std::string& source) {
  auto made = ChatTemplate::parse(source);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return std::move(made).value();
}

Json turn(Json content, Json arguments) {
  Json function = {{"name", "f"}};
  if (!arguments.is_null()) function["arguments"] = std::move(arguments);
  return {
      {"role", "assistant"}, {"content", std::move(content)}, {"tool_calls", Json::array({{{"function", function}}})}};
}

// What the template makes of one turn with a call.
std::string shown(const std::string& source, Json content, Json arguments) {
  const ChatTemplate made = parsed(source);
  Json messages = Json::array({turn(std::move(content), std::move(arguments))});
  made.call_form().adapt(messages);
  ChatInput input;
  input.messages = &messages;
  auto text = made.render(input);
  return text.ok() ? *text : "refused: " + text.error().message;
}

TEST(CallForm, ATemplateThatAppendsArgumentsToATextGetsTheClientsText) {
  const std::string source = kTurn + "{{ m.tool_calls[0].function.name + m.tool_calls[0].function.arguments }}" + kEnd;
  EXPECT_EQ(shown(source, "", R"({"a":1,  "b":2})"), R"([assistant]f{"a":1,  "b":2})");
  EXPECT_EQ(shown(source, "", Json{{"a", 1}, {"b", "x:y, z\"q"}}), R"([assistant]f{"a": 1, "b": "x:y, z\"q"})");
  EXPECT_EQ(shown(source, "", nullptr), "[assistant]f{}");
  EXPECT_EQ(shown(source, "", ""), "[assistant]f{}");
  EXPECT_EQ(shown(source, "", "{\"broken"), "[assistant]f{\"broken");
}

TEST(CallForm, ATemplateThatWritesJsonGetsAnObject) {
  const std::string source =
      kTurn + "{{ m.tool_calls[0].function.name }}{{ m.tool_calls[0].function.arguments | tojson }}" + kEnd;
  EXPECT_EQ(shown(source, "", R"({"a":1})"), R"([assistant]f{"a": 1})");
  EXPECT_EQ(shown(source, "", nullptr), "[assistant]f{}");
  EXPECT_EQ(shown(source, "", "{\"broken"), R"([assistant]f"{\"broken")");
}

TEST(CallForm, ATemplateThatGoesThroughArgumentsGetsAnObject) {
  const std::string source =
      kTurn +
      "{{ m.tool_calls[0].function.name }}"
      "{% for k, v in m.tool_calls[0].function.arguments.items() %}<{{ k }}={{ v }}>{% endfor %}" +
      kEnd;
  EXPECT_EQ(shown(source, "", R"({"a":1})"), "[assistant]f<a=1>");
}

TEST(CallForm, ATemplateThatTakesBothGetsWhatTheModelWrote) {
  const std::string source = kTurn +
                             "{% set a = m.tool_calls[0].function.arguments %}"
                             "{% if a is string %}{{ a }}{% else %}{{ a | tojson }}{% endif %}" +
                             kEnd;
  EXPECT_EQ(shown(source, "", R"({"a":1})"), R"([assistant]{"a":1})");
}

TEST(CallForm, TheTemplateDecidesWhetherNoContentIsNull) {
  const std::string only_null =
      kTurn + "{% if m.content is none %}[call]{% else %}[said {{ m.content }}]{% endif %}" + kEnd;
  EXPECT_EQ(shown(only_null, nullptr, "{}"), "[assistant][call]");
  const std::string drops = kTurn +
                            "{% if m.content is none %}{{ m.tool_calls[0].function.name }}"
                            "{% else %}{{ m.content }}{% endif %}" +
                            kEnd;
  EXPECT_EQ(shown(drops, nullptr, "{}"), "[assistant]f");
  EXPECT_EQ(shown(drops, "", "{}"), "[assistant]f");  // many clients send "" for nothing
  EXPECT_EQ(shown(drops, "hm", "{}"), "[assistant]hm");
  const std::string appends = kTurn + "{{ m.content + '!' + m.tool_calls[0].function.name }}" + kEnd;
  EXPECT_EQ(shown(appends, nullptr, "{}"), "[assistant]!f");
  const std::string writes = kTurn + "{{ m.content }}!{{ m.tool_calls[0].function.name }}" + kEnd;
  EXPECT_EQ(shown(writes, nullptr, "{}"), "[assistant]!f");
}

}  // namespace
}  // namespace espalier
