// OpenAI's back end against a double of its routes; against our own server's: tests/lang.
#include "lang/backends/api_double.h"
#include "lang/backends/openai/openai_select.h"
#include "lang/backends/openai/strict_schema.h"

namespace espalier::lang::openai {
namespace {

// What both routes of OpenAI have.
Json common_fields() {
  return Json::parse(R"({
    "model": {"type": "string"}, "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1}, "n": {"type": "integer", "minimum": 1},
    "stop": {"type": "array", "items": {"type": "string"}}, "seed": {"type": "integer"}, "stream": {"type": "boolean"},
    "stream_options": {"type": "object", "properties": {"include_usage": {"type": "boolean"}}},
    "frequency_penalty": {"type": "number"}, "presence_penalty": {"type": "number"}, "logit_bias": {"type": "object"}})");
}

Json chat_schema() {
  Json schema = Json::parse(R"({"type": "object", "required": ["model", "messages"]})");
  schema["properties"] = common_fields();
  schema["properties"].update(Json::parse(R"({
    "max_completion_tokens": {"type": "integer"}, "max_tokens": {"type": "integer"},
    "logprobs": {"type": "boolean"}, "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
    "messages": {"type": "array", "items": {"type": "object", "required": ["role", "content"], "properties": {
      "role": {"enum": ["system", "user", "assistant"]},
      "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": [
        {"type": "object", "required": ["type", "text"], "properties": {"type": {"enum": ["text"]}, "text": {"type": "string"}}},
        {"type": "object", "required": ["type", "image_url"], "properties": {"type": {"enum": ["image_url"]},
          "image_url": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}}}]}}]}}}},
    "response_format": {"anyOf": [
      {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["json_object"]}}},
      {"type": "object", "required": ["type", "json_schema"], "properties": {"type": {"enum": ["json_schema"]},
        "json_schema": {"type": "object", "required": ["name", "schema"], "properties": {
          "name": {"type": "string"}, "schema": {"type": "object"}, "strict": {"type": "boolean"}}}}}]}})"));
  return schema;
}

Json completion_schema() {
  Json schema = Json::parse(R"({"type": "object", "required": ["model", "prompt"]})");
  schema["properties"] = common_fields();
  schema["properties"].update(Json::parse(R"({
    "max_tokens": {"type": "integer"}, "echo": {"type": "boolean"},
    "logprobs": {"type": "integer", "minimum": 0, "maximum": 5},
    "prompt": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}})"));
  return schema;
}

Json chat_answer(const std::vector<std::string>& texts) {
  Json reply = Json::parse(R"({"id": "chatcmpl-1", "object": "chat.completion", "model": "m",
    "usage": {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15, "prompt_tokens_details": {"cached_tokens": 8}}})");
  for (const std::string& text : texts) {
    Json choice = {{"index", reply["choices"].size()}, {"finish_reason", "stop"}, {"logprobs", nullptr}};
    choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
    reply["choices"].push_back(choice);
  }
  return reply;
}

Json completion_answer(const std::string& text) {
  Json reply = Json::parse(R"({"id": "cmpl-1", "usage": {"prompt_tokens": 3, "completion_tokens": 2}})");
  reply["choices"] = Json::array({{{"index", 0}, {"text", text}, {"finish_reason", "length"}}});
  return reply;
}

Json models(const char* owner) {
  Json list = {{"object", "list"}};
  list["data"] = Json::array({{{"id", "m"}, {"object", "model"}, {"owned_by", owner}}});
  return list;
}

class OpenAiBackend : public ::testing::Test {
 protected:
  OpenAiBackend() { api.want_header("authorization", "Bearer k"); }
  std::shared_ptr<Backend> open(const std::string& model = "gpt-4o-mini", int tries = 0) {
    OpenAiOptions options{.model = model, .base_url = api.url("/v1"), .api_key = "k", .kind = OpenAiServer::openai};
    options.constraint_tries = tries;
    options.connection = quick_connection();
    auto backend = open_openai(options);
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    return *backend;
  }
  ApiDouble api{{{"POST", "/v1/chat/completions", chat_schema()}, {"POST", "/v1/completions", completion_schema()}}};
};

TEST_F(OpenAiBackend, AChatsTurnsGoAsMessages) {
  api.next(ApiDouble::json(chat_answer({"Hi.", "Hello."})));
  GenCall call = short_call();
  call.sampling.n = 2;
  call.sampling.top_k = 5;  // left out, with a word in the log
  call.sampling.stop = {"\n"};
  const auto backend = open();
  const auto output = generate(*backend, chat_document(), call);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->texts, (std::vector<std::string>{"Hi.", "Hello."}));
  EXPECT_EQ(output->meta[0]["finish_reason"]["type"], "stop");
  EXPECT_EQ(output->meta[0]["cached_tokens"], 8);
  EXPECT_EQ(api.body(0), Json::parse(R"({"model": "gpt-4o-mini", "messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Say hi."}],
    "max_tokens": 16, "temperature": 1.0, "top_p": 1.0, "n": 2, "stop": ["\n"]})"));
  EXPECT_EQ(backend->usage().prompt_tokens, 11);
  EXPECT_EQ(backend->usage().completion_tokens, 4);
}

TEST_F(OpenAiBackend, BranchesThatBeginTheSameAskOnceForSeveralSamples) {
  api.next(ApiDouble::json(chat_answer({"Hi.", "Hello.", "Hey."})));
  State chat = three_samples(open());
  ASSERT_FALSE(chat.error()) << chat.error()->message;
  EXPECT_EQ(texts_of(chat, "a"), (std::vector<std::string>{"Hi.", "Hello.", "Hey."}));
  EXPECT_EQ(api.requests().size(), 1u);
  EXPECT_EQ(api.body(0)["n"], 3);

  Json three = completion_answer("a");
  for (const char* text : {"b", "c"})
    three["choices"].push_back({{"index", three["choices"].size()}, {"text", text}, {"finish_reason", "length"}});
  api.only(ApiDouble::json(three));
  State completion = three_samples(open("gpt-3.5-turbo-instruct"));
  ASSERT_FALSE(completion.error()) << completion.error()->message;
  EXPECT_EQ(texts_of(completion, "a"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(api.requests().size(), 2u);
  EXPECT_EQ(api.body(1)["n"], 3);
}

TEST_F(OpenAiBackend, AStreamsDeltasAreThePieces) {
  api.next(
      ApiDouble::events({R"({"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})",
                         R"({"id":"c","choices":[{"index":0,"delta":{"content":"Hel"}}]})",
                         R"({"id":"c","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]})",
                         R"({"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"length"}]})",
                         R"({"id":"c","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}})", "[DONE]"}));
  std::vector<Piece> pieces;
  const auto backend = open();
  const auto output = generate(*backend, chat_document(), short_call(), &pieces);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->texts[0], "Hello");
  EXPECT_EQ(pieces.size(), 2u);
  EXPECT_EQ(joined(pieces), "Hello");
  EXPECT_EQ(output->meta[0]["finish_reason"], Json::parse(R"({"type": "length", "length": 2})"));
  EXPECT_EQ(backend->usage().prompt_tokens, 5);
  EXPECT_EQ(api.body(0)["stream_options"], Json::parse(R"({"include_usage": true})"));
}

TEST_F(OpenAiBackend, LogProbabilitiesAreToldAsEntries) {
  Json reply = chat_answer({"Hi"});
  reply["choices"][0]["logprobs"] =
      Json::parse(R"({"content": [{"token": "Hi", "logprob": -0.5, "top_logprobs": []}]})");
  api.next(ApiDouble::json(reply));
  GenCall call = short_call();
  call.return_logprob = true;
  call.top_logprobs_num = 2;
  const auto output = generate(*open(), chat_document(), call);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(output->meta[0]["output_token_logprobs"], Json::parse(R"([[-0.5, null, "Hi"]])"));
  EXPECT_EQ(api.body(0)["top_logprobs"], 2);
}

TEST_F(OpenAiBackend, AGenerationStandsRightBehindTheOpening) {
  Document begun = chat_document();
  begun.text += "The answer:";
  const auto output = generate(*open(), begun, short_call());
  EXPECT_EQ(output.error().kind, Error::Kind::bad_request);
  EXPECT_NE(output.error().message.find("directly follow the assistant's opening"), std::string::npos);
  EXPECT_EQ(generate(*open(), text_document("Q:"), short_call()).error().kind, Error::Kind::bad_request);
  EXPECT_TRUE(api.requests().empty());
}

TEST_F(OpenAiBackend, ATextWithoutRolesIsTheUsersTurnWhereThatIsAskedFor) {
  api.next(ApiDouble::json(chat_answer({"Hi."})));
  OpenAiOptions options{.model = "m", .base_url = api.url("/v1"), .api_key = "k", .kind = OpenAiServer::openai};
  options.text_is_turn = true;
  options.connection = quick_connection();
  const auto backend = open_openai(options);
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  ASSERT_TRUE(generate(**backend, text_document("Q:"), short_call()).ok());
  EXPECT_EQ(api.body(0)["messages"], Json::parse(R"([{"role": "user", "content": "Q:"}])"));
}

TEST_F(OpenAiBackend, PicturesAreDataUris) {
  api.next(ApiDouble::json(chat_answer({"a cat"})));
  Document document = chat_document();
  document.pictures = {small_picture()};
  document.messages[1] = {"user", "<image>What is it?", document.pictures};
  document.open_pictures = 1;
  ASSERT_TRUE(generate(*open(), document, short_call()).ok());
  const Json content = api.body(0)["messages"][1]["content"];
  EXPECT_EQ(content[0]["image_url"]["url"], std::string("data:image/png;base64,") + kSmallPictureBase64);
  EXPECT_EQ(content[1]["text"], "What is it?");
}

TEST_F(OpenAiBackend, AStrictSchemaIsTheServersAffairAndAnotherIsCheckedHere) {
  const std::string strict =
      R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false})";
  api.next(ApiDouble::json(chat_answer({R"({"a": 1})"})));
  GenCall call = short_call();
  call.constraint = {Constraint::Kind::json_schema, strict};
  ASSERT_TRUE(generate(*open(), chat_document(), call).ok());
  EXPECT_EQ(api.body(0)["response_format"]["json_schema"]["strict"], true);

  call.constraint.text = R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})";
  EXPECT_EQ(generate(*open(), chat_document(), call).error().kind, Error::Kind::unsupported);
  const auto tried = generate(*open("gpt-4o", 1), chat_document(), call);
  ASSERT_TRUE(tried.ok()) << tried.error().message;
  EXPECT_EQ(api.last_body()["response_format"]["json_schema"]["strict"], false);
}

TEST_F(OpenAiBackend, ACompletionModelTakesTheText) {
  api.next(ApiDouble::json(completion_answer(" Paris")));
  const auto backend = open("gpt-3.5-turbo-instruct");
  EXPECT_FALSE(backend->traits().chat);
  const auto output = generate(*backend, text_document("The capital is"), short_call());
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->texts[0], " Paris");
  EXPECT_EQ(output->meta[0]["finish_reason"]["type"], "length");
  EXPECT_EQ(api.body(0)["prompt"], "The capital is");
}

TEST_F(OpenAiBackend, TypesOfACompletionAreLedTo) {
  api.next(ApiDouble::json(completion_answer("Ada")));
  GenCall call = short_call();
  call.type = ValueType::string;
  call.constraint = {Constraint::Kind::regex, "\"[\\w\\d\\s]*\""};
  const auto name = generate(*open("gpt-3.5-turbo-instruct"), text_document("Name: "), call);
  ASSERT_TRUE(name.ok()) << name.error().message;
  EXPECT_EQ(name->texts[0], "\"Ada\"");
  EXPECT_EQ(api.body(0)["prompt"], "Name: \"");
  EXPECT_EQ(api.body(0)["stop"], Json::array({"\""}));
  call.type = ValueType::integer;
  ASSERT_TRUE(generate(*open("gpt-3.5-turbo-instruct"), text_document("Age: "), call).ok());
  EXPECT_EQ(api.body(1)["logit_bias"]["24"], 100);
  EXPECT_EQ(api.body(1)["logit_bias"].size(), 11u);
}

// The text, token by token, as a server with `echo` tells it.
Json echo(std::size_t index, const std::vector<std::pair<std::string, Json>>& tokens, int offset = 0) {
  Json logprobs = {{"tokens", Json::array()}, {"token_logprobs", Json::array()}, {"text_offset", Json::array()}};
  for (const auto& [text, value] : tokens) {
    logprobs["tokens"].push_back(text);
    logprobs["token_logprobs"].push_back(value);
    logprobs["text_offset"].push_back(offset);
    offset += static_cast<int>(text.size());
  }
  return {{"index", index}, {"text", ""}, {"finish_reason", "length"}, {"logprobs", logprobs}};
}

TEST_F(OpenAiBackend, SelectsByEchoedLogProbabilities) {
  Json reply = {{"id", "c"}};
  // "It is" + " warm" / " cold today"; the mean decides, not the sum.
  reply["choices"] = Json::array({echo(0, {{"It", nullptr}, {" is", -0.1}, {" warm", -1.5}}),
                                  echo(1, {{"It", nullptr}, {" is", -0.1}, {" cold", -1.0}, {" today", -1.2}})});
  api.next(ApiDouble::json(reply));
  const auto backend = open("gpt-3.5-turbo-instruct");
  const auto output = select(*backend, text_document("It is"), {{" warm", " cold today"}, nullptr, 0});
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->choice, 1u);
  EXPECT_EQ(output->meta["normalized_prompt_logprobs"], Json::parse("[-1.5, -1.1]"));
  EXPECT_EQ(api.body(0)["prompt"], Json::parse(R"(["It is warm", "It is cold today"])"));
  EXPECT_EQ(api.body(0)["max_tokens"], 0);
}

TEST_F(OpenAiBackend, SelectSaysWhatWouldWorkWhereItCannot) {
  const auto on_chat = select(*open(), chat_document(), {{"a", "b"}, nullptr, 0});
  EXPECT_EQ(on_chat.error().kind, Error::Kind::unsupported);
  EXPECT_NE(on_chat.error().message.find("native"), std::string::npos);
  api.next(ApiDouble::json(Json::parse(R"({"error": {"message": "echo and logprobs cannot be used together"}})"), 400));
  const auto refused = select(*open("gpt-3.5-turbo-instruct"), text_document("x"), {{"a", "b"}, nullptr, 0});
  EXPECT_EQ(refused.error().kind, Error::Kind::unsupported);
  EXPECT_NE(refused.error().message.find("cannot be used together"), std::string::npos);
  EXPECT_EQ(select(*open(), chat_document(), {{"a"}, nullptr, 0.7}).error().field, "temperature");
  EXPECT_EQ(select(*open(), chat_document(), {{}, nullptr, 0}).error().field, "choices");
}

TEST(EchoedTail, HoldsTheTokensThatTouchTheChoice) {
  const auto texts = [](const Result<std::vector<TokenScore>>& tail) {
    std::string joined;
    for (const TokenScore& token : *tail) joined += token.text + "|";
    return joined;
  };
  const auto tail = [](const Json& choice, std::size_t n) { return echoed_tail(choice["logprobs"], n); };
  const Json merged = echo(0, {{"a", nullptr}, {" bcd", -1}, {"e", -2}});
  EXPECT_EQ(texts(tail(merged, 1)), "e|");
  EXPECT_EQ(texts(tail(merged, 2)), " bcd|e|") << "a token that the choice has merged with counts";
  EXPECT_EQ(texts(tail(echo(0, {{"<s>", nullptr}, {"a", -1}, {"b", -2}}, 3), 1)), "b|");
  EXPECT_FALSE(tail(echo(0, {}), 1).ok());
  EXPECT_FALSE(echoed_tail(Json::parse(R"({"tokens": ["a"], "token_logprobs": ["x"], "text_offset": [0]})"), 1).ok());
}

TEST(StrictSchema, IsOneThatClosesEveryObject) {
  const auto strict = [](const char* text) { return is_strict_schema(Json::parse(text)); };
  const std::string closed =
      R"({"type":"object","properties":{"a":ITEM},"required":["a"],"additionalProperties":false})";
  const auto with = [&](const std::string& item) { return std::string(closed).replace(closed.find("ITEM"), 4, item); };
  EXPECT_TRUE(strict(with(R"({"type":"string"})").c_str()));
  EXPECT_TRUE(strict(with(R"({"type":"array","items":{"anyOf":[{"type":"null"},{"type":"number"}]}})").c_str()));
  EXPECT_FALSE(strict(with(R"({"type":"object","properties":{}})").c_str()));
  EXPECT_FALSE(strict(with(R"({"oneOf":[{"type":"null"}]})").c_str()));
  EXPECT_FALSE(strict(R"({"type":"object","properties":{"a":{}},"additionalProperties":false})"));
}

TEST(OpenAiKinds, AServerIsAskedWhoseItIs) {
  ApiDouble api({{"GET", "/v1/models", Json()}, {"POST", "/v1/chat/completions", Json::object()}});
  api.always("/v1/models", ApiDouble::json(models("vllm")));
  api.next(ApiDouble::json(chat_answer({"7"})));
  OpenAiOptions options{.model = "m", .base_url = api.url("/v1/")};
  auto backend = open_openai(options);
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  GenCall call = short_call();
  call.sampling.top_k = 5;
  call.sampling.no_stop_trim = true;
  call.constraint = {Constraint::Kind::regex, "[0-9]"};
  Document begun = chat_document();
  begun.text += "I think: ";
  ASSERT_TRUE(generate(**backend, begun, call).ok());
  const Json body = api.last_body();
  EXPECT_EQ(body["top_k"], 5);
  EXPECT_EQ(body["include_stop_str_in_output"], true);
  EXPECT_EQ(body["structured_outputs"]["regex"], "[0-9]");
  EXPECT_EQ(body["continue_final_message"], true);
  EXPECT_EQ(body["messages"][2]["content"], "I think: ");
}

TEST(OpenAiKinds, AServerWithoutSuchARouteIsTakenAsItComes) {
  ApiDouble api({{"GET", "/v1/models", Json()}});
  api.always("/v1/models", ApiDouble::json(Json::parse(R"({"detail": "Not Found"})"), 404));
  auto backend = open_openai({.model = "m", .base_url = api.url("/v1")});
  ASSERT_TRUE(backend.ok());
  EXPECT_FALSE((*backend)->traits().constraints);
}

TEST(OpenAiKinds, AzureHasItsOwnPathAndHeader) {
  ApiDouble api({{"POST", "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21", Json::object()}});
  api.want_header("api-key", "k");
  api.next(ApiDouble::json(chat_answer({"Hi."})));
  auto backend = open_openai({.model = "my gpt", .base_url = api.url("/"), .api_key = "k", .azure = true});
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  ASSERT_TRUE(generate(**backend, chat_document(), short_call()).ok());
  EXPECT_FALSE(api.body(0).contains("model"));
  EXPECT_FALSE(api.body(0).contains("temperature")) << "what has its default value is not sent";
}

TEST(OpenAiKinds, OpenAiWantsAKey) {
  ::unsetenv("OPENAI_API_KEY");
  ::unsetenv("OPENAI_BASE_URL");
  EXPECT_EQ(open_openai({.model = "gpt-4o"}).error().kind, Error::Kind::unauthorized);
}

}  // namespace
}  // namespace espalier::lang::openai
