// The native back end against a double of SGLang's routes; against our own server: tests/lang.
#include "lang/backends/api_double.h"
#include "lang/backends/native/native_chain.h"
#include "lang/backends/native/native_select.h"
#include "net/server/test_client.h"

namespace espalier::lang::native {
namespace {

Json generate_schema() {
  return Json::parse(R"({
    "type": "object", "required": ["sampling_params"],
    "properties": {
      "text": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
      "input_ids": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
      "image_data": {"type": "array", "items": {"type": "string"}}, "stream": {"type": "boolean"},
      "return_logprob": {"type": "boolean"}, "logprob_start_len": {"type": "integer"},
      "top_logprobs_num": {"type": "integer"}, "return_text_in_logprobs": {"type": "boolean"},
      "sampling_params": {"type": "object", "properties": {
        "max_new_tokens": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "min_new_tokens": {"type": "integer"},
        "temperature": {"type": "number"}, "top_p": {"type": "number"}, "top_k": {"type": "integer"},
        "min_p": {"type": "number"}, "frequency_penalty": {"type": "number"}, "presence_penalty": {"type": "number"},
        "repetition_penalty": {"type": "number"}, "ignore_eos": {"type": "boolean"}, "n": {"type": "integer"},
        "stop": {"type": "array", "items": {"type": "string"}}, "stop_token_ids": {"type": "array"},
        "stop_regex": {"type": "array"}, "no_stop_trim": {"type": "boolean"}, "sampling_seed": {"type": "integer"},
        "skip_special_tokens": {"type": "boolean"}, "spaces_between_special_tokens": {"type": "boolean"},
        "logit_bias": {"type": "object"}, "regex": {"type": "string"}, "json_schema": {"type": "string"},
        "ebnf": {"type": "string"}, "structural_tag": {"type": "string"}}}}})");
}

Json output(const std::string& text, const Json& reason = Json::parse(R"({"type": "stop", "matched": null})")) {
  Json one = {{"text", text}};
  one["meta_info"] = {{"id", "x"}, {"finish_reason", reason}, {"prompt_tokens", 4}, {"completion_tokens", 2}};
  return one;
}

class SglangDouble : public ::testing::Test {
 protected:
  SglangDouble() {
    api.always("/get_model_info",
               ApiDouble::json(Json::parse(R"({"model_path": "Qwen/Qwen2-7B-Instruct", "is_generation": true})")));
  }
  std::shared_ptr<Backend> open() {
    NativeOptions options{.base_url = api.url()};
    options.connection = quick_connection();
    auto backend = open_native(options);
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    return *backend;
  }
  // Of the calls, without the question for the model.
  Json call_body(std::size_t i) const { return api.body(i + 1); }
  ApiDouble api{{{"GET", "/get_model_info", Json()},
                 {"POST", "/generate", generate_schema()},
                 {"POST", "/flush_cache", Json()},
                 {"GET", "/flush_cache", Json()},
                 {"GET", "/get_server_info", Json()},
                 {"GET", "/server_info", Json()}}};
};

TEST_F(SglangDouble, TheTextGoesWholeAndOptionsToTheirPlaces) {
  api.next(ApiDouble::json(output(" Paris")));
  const auto backend = open();
  EXPECT_EQ(backend->chat_format().name, "qwen");
  GenCall call = short_call();
  call.sampling.stop = {"\n"};
  call.sampling.seed = 7;
  call.constraint = {Constraint::Kind::regex, " [A-Z][a-z]+"};
  call.return_logprob = true;
  call.logprob_start_len = 0;
  const auto answer = generate(*backend, text_document("The capital is"), call);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->texts[0], " Paris");
  EXPECT_EQ(answer->meta[0]["prompt_tokens"], 4);
  EXPECT_EQ(call_body(0), Json::parse(R"({"text": "The capital is", "sampling_params": {"max_new_tokens": 16,
    "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "frequency_penalty": 0.0, "presence_penalty": 0.0,
    "ignore_eos": false, "n": 1, "stop": ["\n"], "sampling_seed": 7, "regex": " [A-Z][a-z]+"},
    "return_logprob": true, "logprob_start_len": 0})"));
  EXPECT_EQ(backend->usage().completion_tokens, 2);
  EXPECT_EQ(backend->usage().calls, 1) << "the question for the model is no call";
}

TEST_F(SglangDouble, SeveralSamplesAreAList) {
  api.next(ApiDouble::json(Json::array({output("a"), output("b")})));
  GenCall call = short_call();
  call.sampling.n = 2;
  const auto answer = generate(*open(), text_document("x"), call);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->texts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(answer->meta.size(), 2u);
  const auto too_few = generate(*open(), text_document("x"), short_call());
  EXPECT_EQ(too_few.error().kind, Error::Kind::network);
}

TEST_F(SglangDouble, AStreamsTextIsCumulative) {
  api.next(ApiDouble::events(
      {output("Hel", nullptr).dump(), output("Hello", nullptr).dump(), output("Hello.").dump(), "[DONE]"}));
  std::vector<Piece> pieces;
  const auto answer = generate(*open(), text_document("x"), short_call(), &pieces);
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[1].text, "lo");
  EXPECT_EQ(joined(pieces), "Hello.");
  EXPECT_EQ(pieces[0].meta["prompt_tokens"], 4);
  EXPECT_EQ(answer->texts[0], "Hello.");
}

TEST_F(SglangDouble, StreamsThatEndEarlyOrTakeBackWhatTheySaidAreErrors) {
  std::vector<Piece> pieces;
  api.next(ApiDouble::events({output("Hel", nullptr).dump()}));
  EXPECT_EQ(generate(*open(), text_document("x"), short_call(), &pieces).error().kind, Error::Kind::network);
  api.only(ApiDouble::events({output("Hel", nullptr).dump(), output("Bye").dump()}));
  EXPECT_NE(generate(*open(), text_document("x"), short_call(), &pieces).error().message.find("does not go on"),
            std::string::npos);
  api.only(ApiDouble::events({R"({"error": {"message": "out of pages"}})", "[DONE]"}));
  EXPECT_NE(generate(*open(), text_document("x"), short_call(), &pieces).error().message.find("out of pages"),
            std::string::npos);
}

TEST_F(SglangDouble, PicturesTravelWithEveryRequest) {
  api.next(ApiDouble::json(output("a cat")));
  Document document = text_document("<image> <video> What is it?");
  document.pictures = {small_picture(), std::make_shared<Picture>(Picture{Picture::Kind::video, "film", "", 4})};
  ASSERT_TRUE(generate(*open(), document, short_call()).ok());
  EXPECT_EQ(call_body(0)["image_data"][0], std::string("data:image/png;base64,") + kSmallPictureBase64);
  EXPECT_EQ(call_body(0)["image_data"][1], "video:ZmlsbQ==");
}

TEST_F(SglangDouble, APrefixIsComputedWithoutAToken) {
  api.next(ApiDouble::json(output("")));
  GenCall call;
  call.prompt_only = true;
  ASSERT_TRUE(generate(*open(), text_document("long text"), call).ok());
  EXPECT_EQ(call_body(0)["sampling_params"]["max_new_tokens"], 0);
}

TEST_F(SglangDouble, ChoicesBecomeARegexAndLarkIsRefused) {
  api.next(ApiDouble::json(output("a.b")));
  GenCall call = short_call();
  call.constraint = {Constraint::Kind::choice, R"(["a.b", "c"])"};
  ASSERT_TRUE(generate(*open(), text_document("x"), call).ok());
  EXPECT_EQ(call_body(0)["sampling_params"]["regex"], "(a\\.b|c)");
  call.constraint.kind = Constraint::Kind::lark;
  EXPECT_EQ(generate(*open(), text_document("x"), call).error().kind, Error::Kind::unsupported);
}

TEST_F(SglangDouble, OldAndNewRoutesAreBothAsked) {
  api.always("/flush_cache", ApiDouble::json(Json::object(), 405));
  const auto backend = open();
  EXPECT_FALSE(backend->flush_cache().ok());
  EXPECT_EQ(api.requests().back().method, "GET");
  api.always("/flush_cache", ApiDouble::json(Json::object()));
  EXPECT_TRUE(backend->flush_cache().ok());
  api.always("/get_server_info", ApiDouble::json(Json::object(), 404));
  api.always("/server_info", ApiDouble::json(Json::parse(R"({"version": "0.5.23"})")));
  const auto info = backend->server_info();
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ((*info)["version"], "0.5.23");
}

TEST_F(SglangDouble, ARefusalCarriesTheServersSentence) {
  api.next(ApiDouble::json(Json::parse(R"({"error": {"message": "The input is longer than the context"}})"), 400));
  const auto answer = generate(*open(), text_document("x"), short_call());
  EXPECT_EQ(answer.error().kind, Error::Kind::bad_request);
  EXPECT_NE(answer.error().message.find("longer than the context"), std::string::npos);
  api.always("/get_model_info", ApiDouble::json(Json::parse(R"({"error": "Unauthorized"})"), 401));
  const auto closed = open_native({.base_url = api.url()});
  EXPECT_EQ(closed.error().kind, Error::Kind::unauthorized);
  EXPECT_NE(closed.error().message.find("Unauthorized"), std::string::npos);
  api.always("/get_model_info", ApiDouble::json(Json::object()));
  EXPECT_NE(open_native({.base_url = api.url()}).error().message.find("model_path"), std::string::npos);
}

TEST_F(SglangDouble, BranchesThatBeginTheSameAskOnceForSeveralSamples) {
  api.next(ApiDouble::json(output("")));  // the prefix
  api.next(ApiDouble::json(Json::array({output("a"), output("b"), output("c")})));
  const auto backend = open();
  State s = three_samples(backend);
  ASSERT_FALSE(s.error()) << s.error()->message;
  EXPECT_EQ(texts_of(s, "a"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(call_body(0)["sampling_params"]["max_new_tokens"], 0);
  EXPECT_EQ(call_body(1)["sampling_params"]["n"], 3);
  EXPECT_EQ(backend->usage().calls, 2);
}

// ---- Chains ---------------------------------------------------------------------------------------------------------

Json segments_schema() {
  Json hole = Json::parse(R"({"type": "object", "required": ["name", "sampling_params"],
    "properties": {"name": {"type": "string"}}})");
  hole["properties"]["sampling_params"] = generate_schema()["properties"]["sampling_params"];
  Json schema = Json::parse(R"({"type": "object", "required": ["segments"], "properties": {"segments": {"type": "array",
    "items": {"anyOf": [{"type": "string"}]}}}})");
  schema["properties"]["segments"]["items"]["anyOf"].push_back(std::move(hole));
  return Json{{"anyOf", Json::array({std::move(schema), generate_schema()})}};
}

Json segment(const std::string& name, const std::string& text, int prompt, int completion) {
  Json one = {{"name", name}, {"text", text}, {"output_ids", Json::array({7})}, {"prompt_tokens", prompt}};
  one["completion_tokens"] = completion;
  one["cached_tokens"] = prompt - 1;
  one["finish_reason"] = {{"type", "stop"}, {"matched", "\n"}};
  return one;
}

Json segments_answer(Json segments) {
  Json answer = {{"text", "..."}, {"segments", std::move(segments)}};
  answer["meta_info"] = {{"id", "x"}, {"weight_version", "w"}, {"prompt_tokens", 5}, {"completion_tokens", 5}};
  return answer;
}

Json pin_schema() {
  return Json::parse(R"({"type": "object", "properties": {"text": {"type": "string"}, "seconds": {"type": "integer"},
    "id": {"type": "string"}}})");
}

class EspalierDouble : public ::testing::Test {
 protected:
  EspalierDouble() {
    api.always("/get_model_info",
               ApiDouble::json(Json::parse(R"({"model_path": "Qwen/Qwen2-7B-Instruct", "server": "espalier"})")));
  }
  std::shared_ptr<Backend> open() {
    auto backend = open_native({.base_url = api.url(), .connection = quick_connection()});
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    return *backend;
  }
  static ChainCall two_parts() {
    GenCall name = short_call(), age = short_call();
    name.sampling.stop = {"\n"};
    age.sampling.temperature = 0;
    age.constraint = {Constraint::Kind::regex, "[0-9]+"};
    return {{{"Name:", name}, {"\nAge:", age}, {"", short_call()}}};
  }
  ApiDouble api{{{"GET", "/get_model_info", Json()},
                 {"POST", "/generate", segments_schema()},
                 {"POST", "/v1/cache/pin", pin_schema()},
                 {"POST", "/v1/cache/unpin", pin_schema()}}};
};

TEST_F(EspalierDouble, APrefixIsPinnedAndLetGo) {
  const auto backend = open();
  api.next(ApiDouble::json(Json::parse(R"({"id": "pin_7", "tokens": 3, "seconds_left": 600})")));
  api.next(ApiDouble::json(Json::parse(R"({"id": "pin_7", "released": true})")));
  auto held = backend->hold("You judge.");
  ASSERT_TRUE(held.ok()) << held.error().message;
  ASSERT_NE(*held, nullptr);
  EXPECT_EQ(api.last_body(), Json::parse(R"({"text": "You judge.", "seconds": 600})"));
  *held = nullptr;
  ASSERT_TRUE(net::test::eventually([&] { return api.requests().size() == 3; })) << "the model, the pin, its end";
  EXPECT_EQ(api.last_body(), Json::parse(R"({"id": "pin_7"})"));
}

TEST_F(EspalierDouble, APrefixThatMayNotBePinnedIsComputed) {
  const auto backend = open();
  api.next(ApiDouble::json(Json::parse(R"({"error": {"message": "pins are the operator's"}})"), 403));
  api.next(ApiDouble::json(output("")));
  const auto held = backend->hold("You judge.");
  ASSERT_TRUE(held.ok()) << held.error().message;
  EXPECT_EQ(*held, nullptr);
  EXPECT_EQ(api.last_body()["text"], "You judge.");
  EXPECT_EQ(api.last_body()["sampling_params"]["max_new_tokens"], 0);
}

TEST_F(EspalierDouble, AChainIsOneRequestOfSegments) {
  api.next(ApiDouble::json(
      segments_answer({segment("0", " Ada", 5, 3), segment("1", "36", 12, 2), segment("2", ".", 14, 1)})));
  const auto backend = open();
  EXPECT_TRUE(backend->traits().chains);
  const auto outputs = chain(*backend, text_document("A person.\n"), two_parts());
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  ASSERT_EQ(outputs->size(), 3u);
  EXPECT_EQ((*outputs)[0].texts, std::vector<std::string>{" Ada"});
  EXPECT_EQ((*outputs)[1].texts, std::vector<std::string>{"36"});
  EXPECT_EQ((*outputs)[1].meta[0], Json::parse(R"({"id": "x", "prompt_tokens": 12, "completion_tokens": 2,
    "cached_tokens": 11, "finish_reason": {"type": "stop", "matched": "\n"}, "weight_version": "w"})"));
  Json common = Json::parse(R"({"max_new_tokens": 16, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0,
    "frequency_penalty": 0.0, "presence_penalty": 0.0, "ignore_eos": false, "n": 1})");
  Json name = common, age = common;
  name["stop"] = Json::array({"\n"});
  age["temperature"] = 0.0;
  age["regex"] = "[0-9]+";
  const Json segments = Json::array({"A person.\nName:",
                                     {{"name", "0"}, {"sampling_params", name}},
                                     "\nAge:",
                                     {{"name", "1"}, {"sampling_params", age}},
                                     {{"name", "2"}, {"sampling_params", common}}});
  EXPECT_EQ(api.last_body(), Json({{"segments", segments}}));
  const BackendUsage usage = backend->usage();
  EXPECT_EQ(usage.calls, 1);
  EXPECT_EQ(usage.prompt_tokens, 9) << "the prompt's 5 and 4 of the literal";
  EXPECT_EQ(usage.completion_tokens, 6);
}

TEST_F(EspalierDouble, AChainIsMadeAgainAndItsRefusalCarriesTheServersSentence) {
  api.next(ApiDouble::json(Json::parse(R"({"error": {"message": "draining"}})"), 503));
  api.next(ApiDouble::json(Json::parse(R"({"error": {"message": "segments[3] is too long", "param": "segments[3]"}})"),
                           400));
  const auto backend = open();
  const auto refused = chain(*backend, text_document("x"), two_parts());
  EXPECT_EQ(refused.error().kind, Error::Kind::bad_request);
  EXPECT_NE(refused.error().message.find("segments[3] is too long"), std::string::npos) << refused.error().message;
  EXPECT_EQ(backend->usage().retries, 1);
  EXPECT_EQ(backend->usage().calls, 0);
}

TEST_F(EspalierDouble, AnswersThatAreNoChainsAreErrors) {
  Json given_up = segment("1", "", 12, 0);
  given_up["finish_reason"] = {{"type", "abort"}, {"message", "out of memory"}};
  api.next(ApiDouble::json(segments_answer({segment("0", "a", 5, 3), given_up, segment("2", "", 0, 0)})));
  const auto backend = open();
  const auto aborted = chain(*backend, text_document("x"), two_parts());
  EXPECT_EQ(aborted.error().kind, Error::Kind::cancelled);
  EXPECT_NE(aborted.error().message.find("out of memory"), std::string::npos);
  for (const char* body : {"{}", R"({"segments": []})", R"({"segments": [{}, {}, {}], "meta_info": {}})",
                           R"({"segments": [7, 7, 7], "meta_info": {}})", R"({"segments": 7, "meta_info": {}})"})
    EXPECT_EQ(read_segments(body, 3).error().kind, Error::Kind::network) << body;
  EXPECT_EQ(read_segments(R"({"error": {"message": "out of pages"}})", 3).error().message.find("segments"),
            std::string::npos);
}

TEST_F(EspalierDouble, WhatSegmentsCannotHoldIsNoChain) {
  const auto backend = open();
  const auto context = backend->context();
  const Document document = text_document("x");
  EXPECT_TRUE(context->takes(document, two_parts()));
  ChainCall many{std::vector<ChainCall::Part>(129, {"y", short_call()})};
  EXPECT_FALSE(context->takes(document, many));
  many.parts.pop_back();
  EXPECT_TRUE(context->takes(document, many));
  EXPECT_EQ((*write_segments({}, document, many))["segments"].size(), 256u);
  ChainCall bare = two_parts();
  bare.parts[0].literal.clear();
  EXPECT_FALSE(context->takes({}, bare)) << "an empty prompt";
  Document seen = document;
  seen.pictures = {small_picture()};
  EXPECT_FALSE(context->takes(seen, two_parts()));
  for (auto change : {+[](GenCall& call) { call.sampling.n = 2; }, +[](GenCall& call) { call.return_logprob = true; },
                      +[](GenCall& call) { call.stream = true; }}) {
    ChainCall other = two_parts();
    change(other.parts[1].gen);
    EXPECT_FALSE(context->takes(document, other));
  }
}

TEST_F(SglangDouble, KnowsNoChains) {
  const auto backend = open();
  EXPECT_FALSE(backend->traits().chains);
  EXPECT_FALSE(backend->context()->takes(text_document("x"), {{{"y", short_call()}}}));
}

// A server of token texts: every request to score is answered in one of the two layouts that SGLang has had.
class ScoringServer {
 public:
  bool nulls_first = false;  // 0.4 and later

  // Logprob of token i of a text: -(i + 1) / 8, so that places are told apart.
  Json operator()(const Json& body) const {
    if (body.contains("text") && body["text"].is_string()) return scored(body["text"], {}, body);
    Json outputs = Json::array();
    for (const Json& prompt : body[body.contains("text") ? "text" : "input_ids"])
      outputs.push_back(scored(prompt, {}, body));
    return outputs;
  }
  // Words with the blank before them; "ab" is one token, so that "a" and "b" merge.
  static std::vector<std::string> tokens(const std::string& text) {
    std::vector<std::string> list;
    for (const char c : text)
      if (list.empty() || c == ' ')
        list.emplace_back(1, c);
      else
        list.back() += c;
    return list;
  }

 private:
  Json scored(const Json& prompt, const std::string&, const Json& body) const {
    const auto texts = prompt.is_string() ? tokens(prompt) : std::vector<std::string>(prompt.size(), "?");
    Json one = output("", Json::parse(R"({"type": "length", "length": 0})"));
    one["meta_info"]["prompt_tokens"] = texts.size();
    if (!body.contains("return_logprob")) return one;
    Json& list = one["meta_info"]["input_token_logprobs"] = Json::array();
    const std::size_t start = body["logprob_start_len"].get<std::size_t>();
    for (std::size_t i = start; i < texts.size(); ++i) {
      const bool first = i == start;
      if (first && !nulls_first && start > 0) continue;
      const Json value = first ? Json() : Json(-(static_cast<double>(i) + 1) / 8);
      list.push_back(Json::array({value, static_cast<int>(100 + i), texts[i]}));
    }
    return one;
  }
};

class SglangScoring : public SglangDouble, public ::testing::WithParamInterface<bool> {
 protected:
  SglangScoring() {
    ScoringServer server{GetParam()};
    api.next([server](const HttpDoubleRequest& request) { return ApiDouble::json(server(Json::parse(request.body))); });
  }
};

Json entries_of(const Result<SelectOutput>& output, std::size_t choice) {
  return output.ok() ? output->meta["input_token_logprobs"][choice] : Json(output.error().message);
}

TEST_P(SglangScoring, OnlyTheChoicesOwnTokensCount) {
  const auto chosen = select(*open(), text_document("the sky is"), {{" blue", " green or red"}, nullptr, 0});
  EXPECT_EQ(entries_of(chosen, 0), Json::parse(R"([[-0.5, 103, " blue"]])"));
  EXPECT_EQ(entries_of(chosen, 1),
            Json::parse(R"([[-0.5, 103, " green"], [-0.625, 104, " or"], [-0.75, 105, " red"]])"));
  EXPECT_EQ(chosen->choice, 0u);
  EXPECT_EQ(call_body(1)["logprob_start_len"], 1);
}

TEST_P(SglangScoring, AnOnlyTokenBeforeTheChoiceIsNoExceptionNorIsAMergedOne) {
  const auto after_one = select(*open(), text_document("sky"), {{" blue"}, nullptr, 0});
  EXPECT_EQ(entries_of(after_one, 0), Json::parse(R"([[-0.25, 101, " blue"]])"));
  const auto merged = select(*open(), text_document("the sky"), {{"line", " is"}, nullptr, 0});
  EXPECT_EQ(entries_of(merged, 0), Json::parse(R"([[-0.25, 101, " skyline"]])")) << "the healed token counts";
  EXPECT_EQ(entries_of(merged, 1), Json::parse(R"([[-0.375, 102, " is"]])"));
}

TEST_P(SglangScoring, TheTokensAloneAreAskedForWhenTheMethodNeedsThem) {
  const auto chosen = select(*open(), text_document("the sky is"),
                             {{" blue", " green or red"}, unconditional_likelihood_normalized(), 0});
  ASSERT_TRUE(chosen.ok()) << chosen.error().message;
  EXPECT_EQ(call_body(2)["input_ids"], Json::parse("[[103], [103, 104, 105]]"));
  EXPECT_EQ(chosen->meta["unconditional_token_logprobs"][1],
            Json::parse(R"([[0.0, 103, " green"], [-0.25, 104, " or"], [-0.375, 105, " red"]])"));
}

TEST_P(SglangScoring, AMethodOfOnesOwnIsTold) {
  struct Last final : ChoicesMethod {
    std::string_view name() const override { return "last"; }
    Result<ChoiceDecision> decide(const std::vector<ChoiceScore>& choices) const override {
      return ChoiceDecision{choices.size() - 1, {{"tokens", choices.back().tokens.size()}}};
    }
  };
  const auto chosen =
      select(*open(), text_document("the sky is"), {{" blue", " green or red"}, std::make_shared<Last>(), 0});
  ASSERT_TRUE(chosen.ok()) << chosen.error().message;
  EXPECT_EQ(chosen->choice, 1u);
  EXPECT_EQ(chosen->meta["tokens"], 3);
}

INSTANTIATE_TEST_SUITE_P(BothLayouts, SglangScoring, ::testing::Bool());

TEST(NativeScores, EntriesThatAreNoneAreRefused) {
  SelectCall call{{"a", "b"}, token_length_normalized(), 0};
  for (const char* body :
       {"", "[]", "{}", R"({"meta_info": {"input_token_logprobs": [[[-1, 1, "a"]]]}})",
        R"({"meta_info": {"input_token_logprobs": [[[-1, 1, "a"]], [[null, 1, "b"], ["x", 2, "c"]]]}})",
        R"({"meta_info": {"input_token_logprobs": [[[-1, 1, "a"]], [[-1, 1, "b"], [null, 2, "c"]]]}})"})
    EXPECT_EQ(read_scores(body, call).error().kind, Error::Kind::network) << body;
}

}  // namespace
}  // namespace espalier::lang::native
