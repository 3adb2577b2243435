#include "bench/load/dialect.h"

#include <gtest/gtest.h>

#include "base/json/json_fields.h"
#include "bench/load/dialects.h"
#include "bench/load/http_transport.h"
#include "testing/http_double.h"

namespace espalier::bench {
namespace {

using testing::HttpDouble;
using testing::HttpDoubleReply;
using testing::HttpDoubleRequest;

Json body_of(const std::string& backend, const Call& call, DialectOptions options = {}) {
  const Backend* found = find_backend(backend).value();
  return *parse_json(Dialect::make(found->api, found->constraints, std::move(options))->body(call));
}

Call sample_call() {
  Call call;
  call.prompt = "Hello";
  call.max_tokens = 7;
  call.ignore_eos = true;
  call.stop = {"\n"};
  call.constraint.regex = "[0-9]+";
  return call;
}

TEST(Dialect, NativeBodiesAreWhatSglangsToolPosts) {
  const Json body = body_of("sglang", sample_call());
  EXPECT_EQ(body, Json::parse(R"({"text":"Hello","sampling_params":{"temperature":0.0,"max_new_tokens":7,
      "ignore_eos":true,"stop":["\n"],"regex":"[0-9]+"},"stream":true})"));
  Call ids;
  ids.prompt = std::vector<TokenId>{1, 2};
  ids.samples = 2;
  ids.adapter = "lora";
  DialectOptions options;
  options.stream = false;
  options.return_logprob = options.ask_ids = true;
  options.sampling = {{"top_k", 5}};
  const Json more = body_of("espalier", ids, options);
  EXPECT_EQ(more["input_ids"].dump(), "[1,2]");
  EXPECT_EQ(more["sampling_params"]["n"], 2);
  EXPECT_EQ(more["sampling_params"]["top_k"], 5);
  EXPECT_EQ(more["lora_path"], "lora");
  EXPECT_EQ(more["return_logprob"], true);
  EXPECT_EQ(more["return_prompt_token_ids"], true);
  EXPECT_FALSE(more.contains("stream"));
}

TEST(Dialect, OpenAiBodiesSpeakEachServersOwnWords) {
  DialectOptions options;
  options.model = "m";
  options.sampling = {{"min_p", 0.5}};
  options.extra_body = Json::parse(R"({"stream_options":{"continuous_usage_stats":true},"x":1})");
  const Json completion = body_of("vllm", sample_call(), options);
  EXPECT_EQ(completion["prompt"], "Hello");
  EXPECT_EQ(completion["max_tokens"], 7);
  EXPECT_EQ(completion["structured_outputs"]["regex"], "[0-9]+");
  EXPECT_EQ(completion["stream_options"].dump(), R"({"include_usage":true,"continuous_usage_stats":true})");
  EXPECT_EQ(completion["x"], 1);
  EXPECT_EQ(completion["min_p"], 0.5);
  EXPECT_EQ(body_of("vllm-chat", sample_call())["messages"][0]["content"], "Hello");

  Call call = sample_call();
  call.constraint = {};
  call.constraint.choices = {"a.b", "c"};
  EXPECT_EQ(body_of("sglang-oai", call)["regex"], "(a\\.b|c)");
  EXPECT_EQ(body_of("vllm", call)["structured_outputs"]["choice"].dump(), R"(["a.b","c"])");
  EXPECT_EQ(body_of("llamacpp", call)["grammar"], R"(root ::= "a.b" | "c")");
  call.constraint = {};
  call.constraint.json_schema = Json::parse(R"({"type":"object"})");
  EXPECT_EQ(body_of("openai", call)["response_format"]["json_schema"]["schema"]["type"], "object");
  EXPECT_EQ(body_of("espalier-oai", call)["json_schema"], R"({"type":"object"})");
  EXPECT_EQ(body_of("llamacpp", call)["json_schema"]["type"], "object");

  call.verbatim = Json::parse(R"({"messages":[],"max_tokens":3,"tools":[]})");
  const Json verbatim = body_of("openai-chat", call, options);
  EXPECT_EQ(verbatim["max_tokens"], 3);
  EXPECT_EQ(verbatim["model"], "m");
  EXPECT_TRUE(verbatim.contains("tools"));
  EXPECT_FALSE(verbatim.contains("temperature"));
}

TEST(Backend, UnknownAndUnmeasuredOnesSayWhy) {
  EXPECT_NE(find_backend("nobody").error().message.find("sglang-oai-chat"), std::string::npos);
  EXPECT_NE(find_backend("trt").error().message.find("OpenAI-compatible"), std::string::npos);
  EXPECT_EQ((*find_backend("vllm"))->port, 8000);
}

Outcome read_all(const std::string& backend, const std::vector<std::pair<double, std::string>>& events,
                 DialectOptions options = {}) {
  const Backend* found = find_backend(backend).value();
  const auto dialect = Dialect::make(found->api, found->constraints, std::move(options));
  const auto reader = dialect->reader(1);
  double now = 1;
  for (const auto& [at, text] : events) {
    now = at;
    const auto read = reader->read(text, at);
    EXPECT_TRUE(read.ok()) << read.error().message;
  }
  return reader->finish(now);
}

TEST(AnswerReader, NativeStreamsCountTokensNotEvents) {
  const Outcome o = read_all(
      "sglang",
      {{2,
        R"({"text":"a","output_ids":[5],"meta_info":{"completion_tokens":1,"prompt_tokens":9,"cached_tokens":8,"finish_reason":null}})"},
       {4,
        R"({"text":"abc","output_ids":[5,6,7],"meta_info":{"completion_tokens":3,"prompt_tokens":9,"cached_tokens":8,"finish_reason":null}})"},
       {5,
        R"({"text":"abc","output_ids":[5,6,7],"prompt_token_ids":[1,2],"meta_info":{"completion_tokens":3,"prompt_tokens":9,"cached_tokens":8,"finish_reason":{"type":"length","length":3}}})"},
       {5, "[DONE]"}});
  EXPECT_TRUE(o.ok);
  EXPECT_EQ(o.text, "abc");
  EXPECT_EQ(o.output_tokens, 3);
  EXPECT_EQ(o.prompt_tokens, 9);
  EXPECT_EQ(o.cached_tokens, 8);
  EXPECT_EQ(o.finish_reason, "length");
  EXPECT_DOUBLE_EQ(o.time_to_first_token(), 1);
  EXPECT_EQ(o.gaps, (std::vector<double>{1, 1}));
  EXPECT_DOUBLE_EQ(o.latency(), 4);
  EXPECT_EQ(o.output_ids, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(o.prompt_ids, (std::vector<TokenId>{1, 2}));
}

TEST(AnswerReader, NativeSamplesAndIncrementsAddUp) {
  const Outcome n2 =
      read_all("sglang",
               {{2, R"({"index":1,"text":"x","meta_info":{"completion_tokens":1,"finish_reason":null}})"},
                {3, R"({"index":0,"text":"ab","meta_info":{"completion_tokens":2,"finish_reason":{"type":"stop"}}})"},
                {4, R"({"index":1,"text":"xy","meta_info":{"completion_tokens":2,"finish_reason":{"type":"stop"}}})"}});
  EXPECT_EQ(n2.text, "ab");
  EXPECT_EQ(n2.output_tokens, 4);
  EXPECT_DOUBLE_EQ(n2.first_token, 3);
  const Outcome whole =
      read_all("sglang", {{2, R"([{"text":"ab","meta_info":{"completion_tokens":2,"finish_reason":{"type":"stop"}}},
      {"text":"c","meta_info":{"completion_tokens":1,"finish_reason":{"type":"stop"}}}])"}});
  EXPECT_EQ(whole.text, "ab");
  EXPECT_EQ(whole.output_tokens, 3);
  DialectOptions incremental;
  incremental.incremental_events = true;
  const Outcome pieces = read_all(
      "sglang",
      {{2, R"({"text":"a","output_ids":[1],"meta_info":{"completion_tokens":1,"finish_reason":null}})"},
       {3, R"({"text":"b","output_ids":[2],"meta_info":{"completion_tokens":2,"finish_reason":{"type":"stop"}}})"}},
      incremental);
  EXPECT_EQ(pieces.text, "ab");
  EXPECT_EQ(pieces.output_ids, (std::vector<TokenId>{1, 2}));
}

TEST(AnswerReader, OpenAiStreamsAndWholeRepliesReadAlike) {
  const std::string usage =
      R"("usage":{"prompt_tokens":6,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}})";
  const Outcome completion = read_all("openai", {{2, R"({"choices":[{"index":0,"text":"a","finish_reason":null}]})"},
                                                 {3, R"({"choices":[{"index":0,"text":"","finish_reason":null}]})"},
                                                 {5, R"({"choices":[{"index":0,"text":"bc","finish_reason":"stop"}]})"},
                                                 {5, R"({"choices":[],)" + usage + "}"},
                                                 {5, "[DONE]"}});
  EXPECT_TRUE(completion.ok);
  EXPECT_EQ(completion.text, "abc");
  EXPECT_EQ(completion.output_tokens, 3);
  EXPECT_EQ(completion.cached_tokens, 2);
  EXPECT_EQ(completion.gaps, std::vector<double>{3});
  const Outcome chat =
      read_all("openai-chat", {{2, R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})"},
                               {3, R"({"choices":[{"index":0,"delta":{"reasoning_content":"hm "}}]})"},
                               {4, R"({"choices":[{"index":0,"delta":{"content":"yes"}}]})"},
                               {4, R"({"choices":[{"index":0,"delta":{},"finish_reason":"length"}]})"}});
  EXPECT_EQ(chat.text, "hm yes");
  EXPECT_EQ(chat.output_tokens, 2);  // chunks, as the server counted none
  EXPECT_DOUBLE_EQ(chat.first_token, 3);
  const Outcome whole = read_all(
      "openai-chat",
      {{4, R"({"choices":[{"index":0,"message":{"content":"yes"},"finish_reason":"stop"}],"timings":{"cache_n":5}})"}});
  EXPECT_TRUE(whole.ok);
  EXPECT_EQ(whole.text, "yes");
  EXPECT_EQ(whole.cached_tokens, 5);
}

TEST(AnswerReader, ErrorsAndStreamsWithoutAnEndAreFailures) {
  const Outcome cut = read_all("openai", {{2, R"({"choices":[{"index":0,"text":"a"}]})"}});
  EXPECT_FALSE(cut.ok);
  EXPECT_NE(cut.error.find("before its last event"), std::string::npos);
  for (const char* backend : {"openai", "openai-chat", "sglang"}) {
    const Backend* found = find_backend(backend).value();
    const auto reader = Dialect::make(found->api, found->constraints, {})->reader(0);
    const auto error = reader->read(R"({"error":{"message":"too long"}})", 1);
    ASSERT_FALSE(error.ok());
    EXPECT_NE(error.error().message.find("too long"), std::string::npos);
    for (const char* bad :
         {"", "{", "7", "[7]", R"({"choices":7})", R"({"choices":[7]})", R"({"meta_info":{"completion_tokens":-1}})",
          R"({"usage":{"prompt_tokens":"x"}})", R"({"meta_info":[]})"})
      static_cast<void>(reader->read(bad, 1));  // an error or nothing, never more
  }
  EXPECT_EQ(refusal_of(400, R"({"object":"error","message":"no such field"})"),
            "the server answered 400: no such field");
  EXPECT_EQ(refusal_of(502, "<html>"), "the server answered 502: \"<html>\"");
}

struct Ended {
  std::vector<Outcome> outcomes;
  void run(Transport& transport, std::size_t count) {
    for (int i = 0; i < 2000 && outcomes.size() < count; ++i) transport.run(transport.now() + 0.01);
  }
  Transport::Done note() {
    return [this](Outcome o) { outcomes.push_back(std::move(o)); };
  }
};

TEST(HttpTransport, StreamsOverRealSocketsAndTellsWhatAServerRefuses) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    HttpDoubleReply reply;
    const Json body = *parse_json(request.body);
    if (body.value("prompt", "") == "bad") {
      reply.status = 429;
      reply.body = R"({"error":{"message":"the queue is full"}})";
      return reply;
    }
    EXPECT_EQ(request.header("authorization"), "Bearer k");
    reply.headers = {{"Content-Type", "text/event-stream; charset=utf-8"}};
    reply.body =
        "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n: ping\n\ndata: "
        "{\"choices\":[{\"index\":0,\"text\":\"b\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    reply.piece = 50;
    reply.pause = std::chrono::milliseconds(5);
    return reply;
  });
  Server where;
  where.url = server.url("/");
  where.backend = find_backend("openai").value();
  where.credentials = {{"Authorization", "Bearer k"}};
  auto transport = HttpTransport::open(where, {});
  ASSERT_TRUE(transport.ok());
  Ended ended;
  Call call;
  call.prompt = "good";
  (*transport)->send(call, ended.note());
  ended.run(**transport, 1);
  call.prompt = "bad";
  (*transport)->send(call, ended.note());
  ended.run(**transport, 2);
  ASSERT_EQ(ended.outcomes.size(), 2u);
  EXPECT_TRUE(ended.outcomes[0].ok) << ended.outcomes[0].error;
  EXPECT_EQ(ended.outcomes[0].text, "ab");
  EXPECT_GT(ended.outcomes[0].gaps.at(0), 0);
  EXPECT_LT(ended.outcomes[0].sent, ended.outcomes[0].first_token);
  EXPECT_FALSE(ended.outcomes[1].ok);
  EXPECT_EQ(ended.outcomes[1].error, "the server answered 429: the queue is full");
  EXPECT_EQ(server.requests().at(0).target, "/v1/completions");
}

TEST(HttpTransport, ScoresChoicesByTheirTokensLogprobs) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    const Json body = *parse_json(request.body);
    EXPECT_EQ(body["text"].dump(), R"(["Q yes","Q no"])");
    EXPECT_EQ(body["logprob_start_len"], 3);
    EXPECT_EQ(body["sampling_params"]["max_new_tokens"], 0);
    HttpDoubleReply reply;
    reply.body = R"([{"meta_info":{"input_token_logprobs":[[null,1,null],[-2,2,null],[-4,3,null]]}},
                     {"meta_info":{"input_token_logprobs":[[-1,1,null]]}}])";
    return reply;
  });
  Server where;
  where.url = server.url();
  where.backend = find_backend("sglang").value();
  auto transport = HttpTransport::open(where, {});
  ASSERT_TRUE((*transport)->scores_choices());
  std::vector<double> scores;
  (*transport)->score("Q", 5, {" yes", " no"}, [&](const Outcome& o, std::vector<double> s) {
    EXPECT_TRUE(o.ok) << o.error;
    scores = std::move(s);
  });
  for (int i = 0; i < 500 && scores.empty(); ++i) (*transport)->run((*transport)->now() + 0.01);
  EXPECT_EQ(scores, (std::vector<double>{-3, -1}));
}

}  // namespace
}  // namespace espalier::bench
