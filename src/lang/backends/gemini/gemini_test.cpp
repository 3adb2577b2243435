// Gemini's back end against a double of generateContent.
#include "lang/backends/api_double.h"

namespace espalier::lang::gemini {
namespace {

Json generate_schema() {
  Json schema = Json::parse(R"({
    "type": "object", "required": ["contents"],
    "properties": {
      "contents": {"type": "array", "items": {"type": "object", "required": ["role", "parts"], "properties": {
        "role": {"enum": ["user", "model"]}, "parts": {"type": "array", "items": {"anyOf": [
          {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
          {"type": "object", "required": ["inlineData"], "properties": {"inlineData": {
            "type": "object", "required": ["mimeType", "data"],
            "properties": {"mimeType": {"type": "string"}, "data": {"type": "string"}}}}}]}}}}},
      "systemInstruction": {"type": "object", "required": ["parts"], "properties": {
        "parts": {"type": "array", "items": {"type": "object", "properties": {"text": {"type": "string"}}}}}},
      "safetySettings": {"type": "array", "items": {"type": "object", "required": ["category", "threshold"],
        "properties": {"category": {"type": "string"}, "threshold": {"type": "string"}}}},
      "generationConfig": {"type": "object", "properties": {
        "maxOutputTokens": {"type": "integer", "minimum": 1}, "temperature": {"type": "number", "maximum": 2},
        "topP": {"type": "number"}, "topK": {"type": "integer", "minimum": 1},
        "stopSequences": {"type": "array", "items": {"type": "string"}}, "seed": {"type": "integer"},
        "frequencyPenalty": {"type": "number"}, "presencePenalty": {"type": "number"},
        "responseMimeType": {"enum": ["application/json", "text/x.enum"]}, "responseJsonSchema": {"type": "object"},
        "responseSchema": {"type": "object"}}}}})");
  return schema;
}

Json answer(const std::string& text, const Json& reason = "STOP") {
  Json reply = Json::parse(R"({"responseId": "r1", "modelVersion": "gemini",
    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 5, "totalTokenCount": 16}})");
  Json candidate = {{"index", 0}, {"content", {{"role", "model"}, {"parts", Json::array({{{"text", text}}})}}}};
  if (!reason.is_null()) candidate["finishReason"] = reason;
  reply["candidates"] = Json::array({candidate});
  return reply;
}

constexpr char kWhole[] = "/v1beta/models/gemini:generateContent";
constexpr char kStream[] = "/v1beta/models/gemini:streamGenerateContent?alt=sse";

class GeminiBackend : public ::testing::Test {
 protected:
  std::shared_ptr<Backend> open(std::map<std::string, std::string> safety = {}) {
    GeminiOptions options{.model = "gemini", .base_url = api.url(), .api_key = "k"};
    options.safety_settings = std::move(safety);
    options.connection = quick_connection();
    auto backend = open_gemini(options);
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    api.want_header("x-goog-api-key", "k");
    return *backend;
  }
  ApiDouble api{{{"POST", kWhole, generate_schema()}, {"POST", kStream, generate_schema()}}};
};

TEST_F(GeminiBackend, SendsSafetySettingsWithEachCall) {
  api.next(ApiDouble::json(answer("Hi.")));
  const auto backend = open({{"HARM_CATEGORY_HARASSMENT", "BLOCK_NONE"}});
  ASSERT_TRUE(generate(*backend, chat_document(), short_call()).ok());
  EXPECT_EQ(api.body(0)["safetySettings"],
            Json::parse(R"([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}])"));
}

TEST_F(GeminiBackend, WritesTurnsAndReadsTheAnswer) {
  api.next(ApiDouble::json(answer("Hi.", "MAX_TOKENS")));
  const auto backend = open();
  GenCall call = short_call();
  call.sampling.top_k = 3;
  call.sampling.seed = 0xffffffffffffffffull;
  call.sampling.stop = {"a", "b", "c", "d", "e", "."};
  const auto output = generate(*backend, chat_document(), call);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->texts[0], "Hi") << "the sixth stop is looked for here";
  EXPECT_EQ(api.body(0), Json::parse(R"({"systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [{"role": "user", "parts": [{"text": "Say hi."}]}],
    "generationConfig": {"maxOutputTokens": 16, "temperature": 1.0, "topP": 1.0, "topK": 3,
                         "stopSequences": ["a", "b", "c", "d", "e"], "seed": 2147483647}})"));
  EXPECT_EQ(backend->usage().prompt_tokens, 9);
  EXPECT_EQ(backend->usage().completion_tokens, 7);
}

TEST_F(GeminiBackend, StreamsWithoutTheThoughts) {
  Json thought = answer("hmm", nullptr);
  thought["candidates"][0]["content"]["parts"][0]["thought"] = true;
  api.next(ApiDouble::events({thought.dump(), answer("Hel", nullptr).dump(), answer("lo").dump()}));
  std::vector<Piece> pieces;
  const auto output = generate(*open(), chat_document(), short_call(), &pieces);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->texts[0], "Hello");
  EXPECT_EQ(joined(pieces), "Hello");
  EXPECT_EQ(pieces.size(), 2u);
  EXPECT_EQ(api.requests()[0].target, kStream);
}

TEST_F(GeminiBackend, SchemasAndChoicesAreTheInterfacesOwn) {
  api.next(ApiDouble::json(answer(R"({"a": 1})")));
  GenCall call = short_call();
  call.constraint = {Constraint::Kind::json_schema, R"({"type": "object"})"};
  ASSERT_TRUE(generate(*open(), chat_document(), call).ok());
  EXPECT_EQ(api.body(0)["generationConfig"]["responseJsonSchema"], Json::parse(R"({"type": "object"})"));
  call.constraint = {Constraint::Kind::choice, R"(["yes", "no"])"};
  ASSERT_TRUE(generate(*open(), chat_document(), call).ok());
  EXPECT_EQ(api.body(1)["generationConfig"]["responseSchema"]["enum"], Json::parse(R"(["yes", "no"])"));
  call.constraint = {Constraint::Kind::regex, "a"};
  EXPECT_EQ(generate(*open(), chat_document(), call).error().kind, Error::Kind::unsupported);
}

TEST_F(GeminiBackend, PicturesAndVideosAreInlineData) {
  api.next(ApiDouble::json(answer("a cat")));
  const auto video = std::make_shared<Picture>(Picture{Picture::Kind::video, "film", "", 4});
  Document document = chat_document();
  document.pictures = {small_picture(), video};
  document.messages[1] = {"user", "<image><image>What?", document.pictures};
  document.open_pictures = 2;
  ASSERT_TRUE(generate(*open(), document, short_call()).ok());
  const Json parts = api.body(0)["contents"][0]["parts"];
  EXPECT_EQ(parts[0]["inlineData"]["data"], kSmallPictureBase64);
  EXPECT_EQ(parts[1]["inlineData"]["mimeType"], "video/mp4");
  EXPECT_EQ(parts[2]["text"], "What?");
}

TEST_F(GeminiBackend, WhatIsHeldBackIsAnErrorThatSaysSo) {
  api.next(ApiDouble::json(Json::parse(R"({"promptFeedback": {"blockReason": "SAFETY"}})")));
  const auto refused = generate(*open(), chat_document(), short_call());
  EXPECT_EQ(refused.error().kind, Error::Kind::bad_request);
  EXPECT_NE(refused.error().message.find("SAFETY"), std::string::npos);
  api.only(ApiDouble::json(answer("He", "RECITATION")));
  EXPECT_NE(generate(*open(), chat_document(), short_call()).error().message.find("RECITATION"), std::string::npos);
}

TEST_F(GeminiBackend, ATurnThatHasBegunAndAStreamWithoutEndAreErrors) {
  Document document = chat_document();
  document.text += "Well";
  EXPECT_EQ(generate(*open(), document, short_call()).error().kind, Error::Kind::bad_request);
  api.next(ApiDouble::events({answer("Hel", nullptr).dump()}));
  std::vector<Piece> pieces;
  EXPECT_EQ(generate(*open(), chat_document(), short_call(), &pieces).error().kind, Error::Kind::network);
}

TEST_F(GeminiBackend, SeveralSamplesAreSeveralRequests) {
  api.next(ApiDouble::json(answer("one")));
  const auto backend = open();
  State s = three_samples(backend);
  ASSERT_FALSE(s.error()) << s.error()->message;
  EXPECT_EQ(texts_of(s, "a").size(), 3u);
  EXPECT_EQ(backend->usage().calls, 3);
}

TEST(GeminiVertex, TakesProjectAndLocationFromTheEnvironment) {
  const std::string path = "/v1/projects/proj/locations/europe-west4/publishers/google/models/gemini:generateContent";
  ApiDouble api({{"POST", path, generate_schema()}});
  api.want_header("authorization", "Bearer token");
  api.next(ApiDouble::json(answer("Hi.")));
  ::setenv("GCP_PROJECT_ID", "proj", 1);
  ::setenv("GCP_LOCATION", "europe-west4", 1);
  GeminiOptions options{.model = "gemini", .base_url = api.url(), .vertex = true, .bearer_token = "token"};
  auto backend = open_gemini(options);
  ::unsetenv("GCP_PROJECT_ID");
  ::unsetenv("GCP_LOCATION");
  ASSERT_TRUE(backend.ok()) << backend.error().message;
  const auto output = generate(**backend, text_document("Say hi."), short_call());
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(api.body(0)["contents"], Json::parse(R"([{"role": "user", "parts": [{"text": "Say hi."}]}])"));
  EXPECT_EQ(open_gemini(options).error().field, "project");
}

}  // namespace
}  // namespace espalier::lang::gemini
