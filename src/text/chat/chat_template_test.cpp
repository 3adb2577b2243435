#include "text/chat/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier {
namespace {

SpecialTokens special_of(const Json& golden) {
  SpecialTokens special;
  for (const auto& [name, text] : golden["special_tokens"].items())
    if (text.is_string()) special.emplace_back(name, text.get<std::string>());
  return special;
}

Result<std::string> render(const ChatTemplate& chat, const Json& golden_case) {
  ChatInput input;
  input.messages = &golden_case["messages"];
  input.tools = &golden_case["tools"];
  input.kwargs = &golden_case["extra"];
  input.add_generation_prompt = golden_case.value("add_generation_prompt", false);
  input.continue_final_message = golden_case.value("continue_final_message", false);
  return chat.render(input);
}

class GoldenTemplate : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTemplate, EveryCaseIsExact) {
  const auto path = testing::golden("tokenizers/templates") / (GetParam() + ".json");
  const Json golden = Json::parse(testing::read_file(path));
  const auto chat = ChatTemplate::parse(golden["template"].get<std::string>(), special_of(golden));
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  for (const Json& c : golden["cases"]) {
    const auto rendered = render(*chat, c);
    if (c.contains("rendered")) {
      ASSERT_TRUE(rendered.ok()) << c["conversation"] << ": " << rendered.error().message;
      EXPECT_EQ(*rendered, c["rendered"].get<std::string>()) << c["conversation"];
      continue;
    }
    ASSERT_FALSE(rendered.ok()) << c["conversation"];
    EXPECT_EQ(rendered.error().kind, Error::Kind::bad_request);
    EXPECT_EQ(rendered.error().code, "template_error");
    if (c["error"] == "TemplateError") {
      EXPECT_EQ(rendered.error().message, c["error_text"].get<std::string>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTemplate,
                         ::testing::Values("chatml", "deepseek_v3", "inst", "macros", "qwen3", "strings", "tools-json"),
                         testing::golden_name);

const Json kHello = Json::parse(R"([{"role": "user", "content": "Hello"}])");

Result<std::string> simple(const std::string& source, const ChatInput& input, SpecialTokens special = {}) {
  ESP_TRY(const ChatTemplate chat, ChatTemplate::parse(source, std::move(special)));
  return chat.render(input);
}

TEST(ChatTemplate, AMessageOfRaiseExceptionReachesTheCallerUnchanged) {
  const auto rendered = simple("{{ raise_exception('Only users may speak: 100% sure {}') }}", {.messages = &kHello});
  ASSERT_FALSE(rendered.ok());
  EXPECT_EQ(rendered.error().message, "Only users may speak: 100% sure {}");
  EXPECT_EQ(rendered.error().kind, Error::Kind::bad_request);
  EXPECT_EQ(rendered.error().code, "template_error");
}

TEST(ChatTemplate, RequestsMayAddVariablesButNotReplaceTheServers) {
  const std::string source = "{{ bos_token }}{{ messages[0].content }}{{ enable_thinking }}";
  const SpecialTokens special = {{"bos_token", "<s>"}};
  const Json good = Json::parse(R"({"enable_thinking": false, "builtin_tools": ["x"]})");
  EXPECT_EQ(*simple(source, {.messages = &kHello, .kwargs = &good}, special), "<s>HelloFalse");
  for (const char* name :
       {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template",
        "bos_token", "eos_token", "raise_exception", "strftime_now", "namespace", "range", "dict", "loop"}) {
    const Json bad = {{name, "evil"}};
    const auto rendered = simple(source, {.messages = &kHello, .kwargs = &bad}, special);
    ASSERT_FALSE(rendered.ok()) << name;
    EXPECT_EQ(rendered.error().field, std::string("chat_template_kwargs.") + name);
  }
}

TEST(ChatTemplate, WhatIsNotAConversationIsRefusedByName) {
  const auto field = [](const char* messages, const char* tools, const char* kwargs) {
    const Json m = Json::parse(messages), t = Json::parse(tools), k = Json::parse(kwargs);
    const auto rendered = simple("x", {.messages = &m, .tools = &t, .kwargs = &k});
    return rendered.ok() ? "accepted" : rendered.error().field;
  };
  EXPECT_EQ(field("[]", "null", "null"), "accepted");
  EXPECT_EQ(field("null", "null", "null"), "messages");
  EXPECT_EQ(field("{}", "null", "null"), "messages");
  EXPECT_EQ(field("[{}, 5]", "null", "null"), "messages[1]");
  EXPECT_EQ(field("[]", "{}", "null"), "tools");
  EXPECT_EQ(field("[]", "[\"f\"]", "null"), "tools[0]");
  EXPECT_EQ(field("[]", "null", "[]"), "chat_template_kwargs");
}

TEST(ChatTemplate, OrderOfKeysIsKept) {
  const Json messages = Json::parse(R"([{"role": "user", "z": 1, "a": {"y": 2, "b": [1.0, 18446744073709551615]}}])");
  EXPECT_EQ(*simple("{{ messages[0] | tojson }}", {.messages = &messages}),
            R"({"role": "user", "z": 1, "a": {"y": 2, "b": [1.0, 18446744073709551615]}})");
}

TEST(ChatTemplate, ReasoningIsReadUnderAnyOfItsNames) {
  const std::string source = "{% for m in messages %}{{ m.thinking }}/{{ m.reasoning_content }};{% endfor %}";
  for (const char* name : {"thinking", "reasoning", "reasoning_content"}) {
    const Json messages = Json::array({{{"role", "assistant"}, {name, "hm"}}, {{"role", "user"}, {"content", "x"}}});
    EXPECT_EQ(*simple(source, {.messages = &messages}), "hm/hm;/;") << name;
  }
}

TEST(ChatTemplate, AContinuedMessageEndsTheText) {
  const std::string source = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}";
  const Json messages =
      Json::parse(R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, "}])");
  EXPECT_EQ(*simple(source, {.messages = &messages, .continue_final_message = true}), "<user>Hi</><assistant>Well,");

  const Json parts = Json::parse(
      R"([{"role": "assistant", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}, {"type": "image"}]}])");
  EXPECT_EQ(*simple("{% for p in messages[0].content %}[{{ p.text }}]{% endfor %}",
                    {.messages = &parts, .continue_final_message = true}),
            "[one][two");
}

TEST(ChatTemplate, AMessageThatCannotBeContinuedIsRefused) {
  const Json no_content = Json::parse(R"([{"role": "assistant", "content": null}])"), empty = Json::array();
  EXPECT_FALSE(simple("x", {.messages = &no_content, .continue_final_message = true}).ok());
  EXPECT_FALSE(simple("x", {.messages = &empty, .continue_final_message = true}).ok());
  EXPECT_FALSE(simple("the message is left out", {.messages = &kHello, .continue_final_message = true}).ok());
  EXPECT_EQ(
      simple("x", {.messages = &kHello, .add_generation_prompt = true, .continue_final_message = true}).error().field,
      "continue_final_message");
}

TEST(ChatTemplate, TimeComesFromTheCaller) {
  EXPECT_EQ(*simple("{{ strftime_now('%Y') }}", {.messages = &kHello, .now = 1'000'000'000}), "2001");
}

TEST(ChatTemplate, ABrokenTemplateSaysWhereItIsBroken) {
  const auto parsed = ChatTemplate::parse("a\nb\n{% if x %}\nc");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().kind, Error::Kind::bad_file);
  EXPECT_EQ(parsed.error().field, "chat_template");
  EXPECT_NE(parsed.error().message.find("line 4"), std::string::npos) << parsed.error().message;
}

TEST(ChatTemplate, MissingToolsAreNone) {
  EXPECT_EQ(*simple("{{ tools is none }}{{ documents is none }}{{ bos_token is defined }}", {.messages = &kHello}),
            "TrueTrueFalse");
}

}  // namespace
}  // namespace espalier
