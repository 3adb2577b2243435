// Anthropic's back end against a double of the Messages interface.
#include "lang/backends/api_double.h"

namespace espalier::lang::anthropic {
namespace {

Json messages_schema() {
  return Json::parse(R"({
    "type": "object", "required": ["model", "max_tokens", "messages"],
    "properties": {
      "model": {"type": "string"}, "max_tokens": {"type": "integer", "minimum": 1},
      "messages": {"type": "array", "items": {"type": "object", "required": ["role", "content"], "properties": {
        "role": {"enum": ["user", "assistant"]},
        "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": [
          {"type": "object", "required": ["type", "text"],
           "properties": {"type": {"enum": ["text"]}, "text": {"type": "string"}}},
          {"type": "object", "required": ["type", "source"], "properties": {"type": {"enum": ["image"]},
           "source": {"type": "object", "required": ["type", "media_type", "data"], "properties": {
             "type": {"enum": ["base64"]}, "data": {"type": "string"},
             "media_type": {"enum": ["image/jpeg", "image/png", "image/gif", "image/webp"]}}}}}]}}]}}}},
      "system": {"type": "string"}, "stop_sequences": {"type": "array", "items": {"type": "string"}},
      "temperature": {"type": "number", "minimum": 0, "maximum": 1},
      "top_p": {"type": "number", "minimum": 0, "maximum": 1}, "top_k": {"type": "integer", "minimum": 1},
      "output_config": {"type": "object", "properties": {"format": {
        "type": "object", "required": ["type", "schema"],
        "properties": {"type": {"enum": ["json_schema"]}, "schema": {"type": "object"}}}}},
      "stream": {"type": "boolean"}}})");
}

Json answer(const std::string& text, const std::string& reason = "end_turn", const Json& sequence = nullptr) {
  Json message = Json::parse(R"({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
    "usage": {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 4}})");
  message["content"] = Json::array({{{"type", "text"}, {"text", text}}});
  message["stop_reason"] = reason;
  message["stop_sequence"] = sequence;
  return message;
}

std::vector<std::string> stream_of(const std::vector<std::string>& texts) {
  std::vector<std::string> events = {
      R"({"type":"message_start","message":{"id":"msg_2","content":[],"usage":{"input_tokens":12,"output_tokens":1}}})",
      R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})", R"({"type":"ping"})"};
  for (const std::string& text : texts) {
    Json delta = {{"type", "content_block_delta"}, {"index", 0}};
    delta["delta"] = {{"type", "text_delta"}, {"text", text}};
    events.push_back(delta.dump());
  }
  events.push_back(R"({"type":"content_block_stop","index":0})");
  events.push_back(R"({"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},
                       "usage":{"output_tokens":7}})");
  events.back().erase(events.back().find('\n'), 23);
  events.push_back(R"({"type":"message_stop"})");
  return events;
}

class AnthropicBackend : public ::testing::Test {
 protected:
  AnthropicBackend() {
    api.want_header("x-api-key", "k");
    api.want_header("anthropic-version", "2023-06-01");
  }
  std::shared_ptr<Backend> open(int tries = 0) {
    AnthropicOptions options{.model = "claude", .base_url = api.url(), .api_key = "k", .constraint_tries = tries};
    options.connection = quick_connection();
    auto backend = open_anthropic(options);
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    return *backend;
  }
  ApiDouble api{{{"POST", "/v1/messages", messages_schema()}}};
};

TEST_F(AnthropicBackend, SplitsTheSystemTurnOffAndLeavesTheStatesListAlone) {
  api.next(ApiDouble::json(answer("Hi.", "stop_sequence", "!")));
  const Document document = chat_document();
  GenCall call = short_call();
  call.sampling.stop = {"!"};
  call.sampling.temperature = 0.5;
  call.sampling.top_k = 4;
  const auto output = generate(*open(), document, call);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->texts, std::vector<std::string>{"Hi."});
  EXPECT_EQ(output->meta[0]["finish_reason"], Json::parse(R"({"type": "stop", "matched": "!"})"));
  EXPECT_EQ(output->meta[0]["prompt_tokens"], 14);
  EXPECT_EQ(output->meta[0]["cached_tokens"], 4);
  EXPECT_EQ(api.body(0), Json::parse(R"({"model": "claude", "max_tokens": 16, "system": "Be brief.",
    "messages": [{"role": "user", "content": "Say hi."}], "temperature": 0.5, "top_k": 4, "stop_sequences": ["!"]})"));
  EXPECT_EQ(document.messages.size(), 2u);
}

TEST_F(AnthropicBackend, StreamsAndCountsTokens) {
  api.next(ApiDouble::events(stream_of({"Hel", "lo ", "you"}), true));
  const auto backend = open();
  std::vector<Piece> pieces;
  const auto output = generate(*backend, chat_document(), short_call(), &pieces);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(pieces.size(), 3u);
  EXPECT_EQ(joined(pieces), "Hello you");
  EXPECT_EQ(output->texts[0], "Hello you");
  EXPECT_EQ(output->meta[0]["finish_reason"]["type"], "length");
  const BackendUsage usage = backend->usage();
  EXPECT_EQ(usage.calls, 1);
  EXPECT_EQ(usage.prompt_tokens, 12);
  EXPECT_EQ(usage.completion_tokens, 7);
}

TEST_F(AnthropicBackend, BlankStopsAreLookedForHere) {
  GenCall call = short_call();
  call.sampling.stop = {"\n", "END"};
  api.next(ApiDouble::json(answer("one\ntwo")));
  const auto whole = generate(*open(), chat_document(), call);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->texts[0], "one");
  EXPECT_EQ(whole->meta[0]["finish_reason"]["matched"], "\n");
  EXPECT_EQ(api.body(0)["stop_sequences"], Json::array({"END"}));

  api.only(ApiDouble::events(stream_of({"on", "e\n", "two"}), true));
  std::vector<Piece> pieces;
  const auto streamed = generate(*open(), chat_document(), call, &pieces);
  ASSERT_TRUE(streamed.ok());
  EXPECT_EQ(streamed->texts[0], "one");
  EXPECT_EQ(joined(pieces), "one");
}

TEST_F(AnthropicBackend, GoesOnWithATurnThatHasBegun) {
  api.next(ApiDouble::json(answer(" 42.")));
  Document document = chat_document();
  document.text += "The answer is ";
  const auto output = generate(*open(), document, short_call());
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->texts[0], "42.");
  EXPECT_EQ(api.body(0)["messages"][1], Json::parse(R"({"role": "assistant", "content": "The answer is"})"));
}

TEST_F(AnthropicBackend, PicturesAreBlocksInTheirPlaces) {
  api.next(ApiDouble::json(answer("a cat")));
  Document document = chat_document();
  document.messages[1] = {"user", "Look: <image> What is it?", {small_picture()}};
  document.pictures = {small_picture()};
  document.open_pictures = 1;
  ASSERT_TRUE(generate(*open(), document, short_call()).ok());
  const Json content = api.body(0)["messages"][0]["content"];
  ASSERT_EQ(content.size(), 3u);
  EXPECT_EQ(content[0]["text"], "Look: ");
  EXPECT_EQ(content[1]["source"]["data"], kSmallPictureBase64);
  EXPECT_EQ(content[2]["text"], " What is it?");
}

TEST_F(AnthropicBackend, SeveralSamplesAreSeveralRequests) {
  api.next(ApiDouble::json(answer("one")));
  GenCall call = short_call();
  call.sampling.n = 3;
  const auto backend = open();
  const auto output = generate(*backend, chat_document(), call);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->texts, (std::vector<std::string>{"one", "one", "one"}));
  EXPECT_EQ(output->meta.size(), 3u);
  EXPECT_EQ(backend->usage().calls, 3);

  State s = three_samples(backend);
  ASSERT_FALSE(s.error()) << s.error()->message;
  EXPECT_EQ(texts_of(s, "a").size(), 3u);
  EXPECT_EQ(backend->usage().calls, 6);
}

TEST_F(AnthropicBackend, WhatItCannotDoIsSaidBeforeAnythingIsSent) {
  const auto backend = open();
  GenCall regex = short_call();
  regex.constraint = {Constraint::Kind::regex, "[0-9]+"};
  const auto constrained = generate(*backend, chat_document(), regex);
  EXPECT_EQ(constrained.error().kind, Error::Kind::unsupported);
  EXPECT_NE(constrained.error().message.find("constraint_tries"), std::string::npos);
  EXPECT_EQ(select(*backend, chat_document(), {{"a", "b"}, nullptr, 0}).error().kind, Error::Kind::unsupported);
  GenCall tokens = short_call();
  tokens.sampling.stop_token_ids = {1};
  EXPECT_EQ(generate(*backend, chat_document(), tokens).error().field, "stop_token_ids");
  Document user = chat_document();
  user.open_role = "user";
  EXPECT_NE(generate(*backend, user, short_call()).error().message.find("the user's"), std::string::npos);
  EXPECT_TRUE(api.requests().empty());
}

TEST_F(AnthropicBackend, AJsonSchemaIsHeldByTheInterface) {
  api.next(ApiDouble::json(answer(R"({"a": 1})")));
  GenCall call = short_call();
  call.constraint = {Constraint::Kind::json_schema, R"({"type": "object"})"};
  const auto backend = open();
  const auto output = generate(*backend, chat_document(), call);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(api.body(0)["output_config"],
            Json::parse(R"({"format": {"type": "json_schema", "schema": {"type": "object"}}})"));
  Document begun = chat_document();
  begun.text += "The answer is ";
  EXPECT_EQ(generate(*backend, begun, call).error().field, "json_schema");
  call.constraint.text = "{";
  EXPECT_EQ(generate(*backend, chat_document(), call).error().field, "json_schema");
  EXPECT_EQ(api.requests().size(), 1u);
}

TEST_F(AnthropicBackend, AConstraintIsTriedForWhenThatIsAsked) {
  for (const char* text : {"many", "a few", "12"}) api.next(ApiDouble::json(answer(text)));
  GenCall call = short_call();
  call.constraint = {Constraint::Kind::regex, "[0-9]+"};
  const auto output = generate(*open(3), chat_document(), call);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->texts[0], "12");
  EXPECT_EQ(api.requests().size(), 3u);
}

TEST_F(AnthropicBackend, AConstraintThatNoTryMatchesIsAnErrorWithTheLastText) {
  api.next(ApiDouble::json(answer("many")));
  GenCall call = short_call();
  call.constraint = {Constraint::Kind::regex, "[0-9]+"};
  const auto output = generate(*open(2), chat_document(), call);
  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.error().kind, Error::Kind::unsupported);
  EXPECT_NE(output.error().message.find("\"many\""), std::string::npos) << output.error().message;
  EXPECT_EQ(api.requests().size(), 2u);
}

TEST_F(AnthropicBackend, AnErrorInsideAStreamIsTheCalls) {
  auto events = stream_of({"Hel"});
  events.resize(4);
  events.push_back(R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})");
  api.next(ApiDouble::events(events, true));
  std::vector<Piece> pieces;
  const auto output = generate(*open(), chat_document(), short_call(), &pieces);
  ASSERT_FALSE(output.ok());
  EXPECT_NE(output.error().message.find("Overloaded"), std::string::npos);
  EXPECT_EQ(joined(pieces), "Hel");
}

TEST_F(AnthropicBackend, AStreamThatIsCutOffIsNoAnswer) {
  auto events = stream_of({"Hel", "lo"});
  events.resize(5);
  api.next(ApiDouble::events(events, true));
  std::vector<Piece> pieces;
  const auto output = generate(*open(), chat_document(), short_call(), &pieces);
  EXPECT_EQ(output.error().kind, Error::Kind::network);
  EXPECT_EQ(api.requests().size(), 1u) << "what was told in part is not asked again";
}

TEST(AnthropicOptionsChecks, AKeyIsNeeded) {
  ::unsetenv("ANTHROPIC_API_KEY");
  EXPECT_EQ(open_anthropic({.model = "claude"}).error().kind, Error::Kind::unauthorized);
  EXPECT_EQ(open_anthropic({.api_key = "k"}).error().field, "model");
  EXPECT_EQ(open_anthropic({.model = "m", .base_url = "ftp://x", .api_key = "k"}).error().field, "base_url");
}

}  // namespace
}  // namespace espalier::lang::anthropic
