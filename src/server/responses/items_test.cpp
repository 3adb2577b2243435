// Items -> messages: neighbouring items of the assistant are one turn, and what is not read is refused by name.
#include "server/responses/items.h"

#include <gtest/gtest.h>

namespace espalier::server::items_test {
namespace {

Result<Json> read(const char* text) {
  return read_items(Json::parse(text), "input", ServerOptions{});
}

TEST(Items, ATextIsAMessageOfTheUser) {
  const auto items = read(R"("Hi")");
  ASSERT_TRUE(items.ok());
  EXPECT_EQ((*items)[0]["content"], Json::parse(R"([{"type":"input_text","text":"Hi"}])"));
  EXPECT_TRUE((*items)[0]["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(messages_of(*items), Json::parse(R"([{"role":"user","content":"Hi"}])"));
}

TEST(Items, WhatTheAssistantSaidTogetherIsOneTurn) {
  const auto items = read(R"([
    {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}],
     "content": [{"type": "reasoning_text", "text": "t"}]},
    {"type": "message", "role": "assistant", "content": "I call"},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{\"x\":1}"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "sun"}]},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "only this"}]},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    {"role": "assistant", "content": "yes"},
    {"role": "developer", "content": ""}])");
  ASSERT_TRUE(items.ok()) << items.error().message;
  EXPECT_EQ(messages_of(*items), Json::parse(R"([
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": "I call", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
      {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{\"x\":1}"}}], "reasoning_content": "t"},
    {"role": "tool", "tool_call_id": "c2", "content": "sun", "name": "g"},
    {"role": "tool", "tool_call_id": "c1", "content": "rain", "name": "f"},
    {"role": "assistant", "content": "no", "reasoning_content": "only this"},
    {"role": "assistant", "content": "yes"},
    {"role": "developer", "content": ""}])"));
}

TEST(Items, CallsWithoutWordsHaveNoContent) {
  const auto items = read(R"([{"type": "function_call", "call_id": "c", "name": "f", "arguments": "broken {"}])");
  ASSERT_TRUE(items.ok());
  EXPECT_TRUE(messages_of(*items)[0]["content"].is_null());
  EXPECT_EQ(messages_of(*items)[0]["tool_calls"][0]["function"]["arguments"], "broken {");
}

TEST(Items, AnItemThatWasReadReadsAsItself) {
  const auto items = read(R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"},
    {"type": "reasoning", "summary": []}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "z"}, {"type": "item_reference", "id": "msg_1"}])");
  ASSERT_TRUE(items.ok());
  const auto again = read_items(*items, "input", ServerOptions{});
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, *items);
}

TEST(Items, WhatIsNotReadIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"3", "input"},
      {R"([3])", "input[0]"},
      {R"([{}])", "input[0].type"},
      {R"([{"type": "web_search_call"}])", "input[0].type"},
      {R"([{"role": "user"}])", "input[0].content"},
      {R"([{"role": "tool", "content": ""}])", "input[0].role"},
      {R"([{"role": "user", "content": [{"type": "input_image"}]}])", "input[0].content[0].image_url"},
      {R"([{"role": "user", "content": [{"type": "input_audio"}]}])", "input[0].content[0].type"},
      {R"([{"role": "user", "content": [{"type": "refusal", "refusal": ""}]}])", "input[0].content[0].type"},
      {R"([{"role": "user", "content": "", "id": "a b"}])", "input[0].id"},
      {R"([{"type": "function_call", "name": "f", "arguments": "{}"}])", "input[0].call_id"},
      {R"([{"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}])", "input[0].arguments"},
      {R"([{"type": "function_call_output", "call_id": "c"}])", "input[0].output"},
      {R"([{"type": "reasoning", "content": [{"type": "output_text", "text": ""}]}])", "input[0].content[0].type"},
      {R"([{"type": "item_reference"}])", "input[0].id"}};
  for (const auto& [text, field] : cases) {
    const auto items = read(text);
    ASSERT_FALSE(items.ok()) << text;
    EXPECT_EQ(items.error().field, field) << text;
  }
}

}  // namespace
}  // namespace espalier::server::items_test
