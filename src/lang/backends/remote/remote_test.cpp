// What all remote back ends share: tries, pauses, time-outs, cancellation, limits, hostile answers. Driven through the
// native back end, over real sockets.
#include <atomic>
#include <thread>

#include "lang/backends/api_double.h"
#include "lang/backends/remote/calls/retry.h"
#include "lang/backends/remote/driver.h"
#include "lang/backends/remote/wire/content_parts.h"
#include "lang/backends/remote/wire/stop_strings.h"
#include "net/server/test_client.h"

namespace espalier::lang {
namespace {

using namespace std::chrono_literals;
using net::test::eventually;

std::string done(const std::string& text) {
  Json one = {{"text", text}};
  one["meta_info"] = {{"finish_reason", {{"type", "stop"}}}, {"prompt_tokens", 1}, {"completion_tokens", 1}};
  return one.dump();
}

class RemoteCalls : public ::testing::Test {
 protected:
  RemoteCalls() { api.always("/get_model_info", ApiDouble::json({{"model_path", "m"}})); }
  std::shared_ptr<Backend> open(const ConnectionOptions& connection = quick_connection()) {
    auto backend = open_native({.base_url = api.url(), .connection = connection});
    EXPECT_TRUE(backend.ok()) << backend.error().message;
    return *backend;
  }
  static HttpDoubleReply good(const std::string& text = "fine") { return ApiDouble::json(Json::parse(done(text))); }
  static HttpDoubleReply status(int code, std::vector<std::pair<std::string, std::string>> headers = {}) {
    auto reply = ApiDouble::json({{"error", {{"message", "not now"}}}}, code);
    for (auto& header : headers) reply.headers.push_back(std::move(header));
    return reply;
  }
  std::size_t calls() const { return api.requests().size() - 1; }
  ApiDouble api{{{"GET", "/get_model_info", Json()}, {"POST", "/generate", Json::object()}}};
};

TEST_F(RemoteCalls, ABusyOrBrokenServerIsAskedAgain) {
  api.next(status(429));
  api.next(status(503));
  api.next(good());
  const auto backend = open();
  const auto output = generate(*backend, text_document("x"), short_call());
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(calls(), 3u);
  EXPECT_EQ(backend->usage().retries, 2);
  EXPECT_EQ(backend->usage().calls, 1);
}

TEST_F(RemoteCalls, AConnectionThatBreaksIsTriedAgain) {
  auto cut = good();
  cut.cut_after = 5;
  api.next(cut);
  api.next(good());
  EXPECT_TRUE(generate(*open(), text_document("x"), short_call()).ok());
  EXPECT_EQ(calls(), 2u);
}

TEST_F(RemoteCalls, TheTriesAreCountedAndTheLastErrorTold) {
  api.next(status(503));
  const auto output = generate(*open(), text_document("x"), short_call());
  EXPECT_EQ(output.error().kind, Error::Kind::unavailable);
  EXPECT_NE(output.error().message.find("not now (3 tries)"), std::string::npos) << output.error().message;
  EXPECT_EQ(calls(), 3u);
}

TEST_F(RemoteCalls, WhatTheCallerDidWrongIsNotTriedAgain) {
  for (const int code : {400, 401, 403, 404, 413, 422, 501}) {
    api.only(status(code));
    const std::size_t before = api.requests().size();
    EXPECT_FALSE(generate(*open(), text_document("x"), short_call()).ok());
    EXPECT_EQ(api.requests().size(), before + 2) << code;
  }
}

TEST_F(RemoteCalls, ARetryAfterIsWaitedFor) {
  api.next(status(429, {{"Retry-After", "1"}}));
  api.next(good());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(generate(*open(), text_document("x"), short_call()).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 1000ms);
}

TEST_F(RemoteCalls, ARetryAfterThatIsTooLongEndsTheTriesAndIsTold) {
  api.next(status(429, {{"Retry-After", "3600"}}));
  const auto output = generate(*open(), text_document("x"), short_call());
  EXPECT_EQ(output.error().kind, Error::Kind::busy);
  EXPECT_NE(output.error().message.find("after 3600 s"), std::string::npos) << output.error().message;
  EXPECT_EQ(calls(), 1u);
}

TEST_F(RemoteCalls, ASilentServerIsATimeOut) {
  const auto backend_of = [&](std::chrono::milliseconds whole, std::chrono::milliseconds idle) {
    auto connection = quick_connection();
    connection.timeout = whole;
    connection.idle_timeout = idle;
    connection.retry.tries = 1;
    return open(connection);
  };
  auto slow = good();
  slow.pause = 5s;
  api.next(slow);
  EXPECT_EQ(generate(*backend_of(200ms, 0ms), text_document("x"), short_call()).error().kind, Error::Kind::timeout);
  EXPECT_EQ(generate(*backend_of(0ms, 200ms), text_document("x"), short_call()).error().kind, Error::Kind::timeout);
}

TEST_F(RemoteCalls, NobodyThereIsANetworkError) {
  auto connection = quick_connection();
  connection.retry = {2, 1ms, 1ms};
  const auto backend = open_native({.base_url = "http://127.0.0.1:1", .connection = connection});
  EXPECT_EQ(backend.error().kind, Error::Kind::network);
  EXPECT_NE(backend.error().message.find("nothing answers"), std::string::npos) << backend.error().message;
  EXPECT_EQ(open_native({.base_url = "localhost:30000"}).error().field, "base_url");
  EXPECT_EQ(open_native({.base_url = "http://x", .api_key = "k\n"}).error().field, "api_key");
}

TEST_F(RemoteCalls, NoMoreRequestsAtOnceThanAllowedAndAllInOrderOfComing) {
  std::atomic<int> now{0}, most{0};
  api.next([&](const HttpDoubleRequest& request) {
    most = std::max<int>(most, ++now);
    std::this_thread::sleep_for(5ms);
    --now;
    return good(Json::parse(request.body)["text"]);
  });
  auto connection = quick_connection();
  connection.most_at_once = 4;
  const auto backend = open(connection);
  std::vector<std::shared_ptr<Waited<GenOutput>>> waited;
  std::vector<std::unique_ptr<Call>> under_way;
  const auto context = backend->context();
  for (int i = 0; i < 40; ++i) {
    waited.push_back(std::make_shared<Waited<GenOutput>>());
    under_way.push_back(context->generate(text_document(std::to_string(i)), short_call(), sink_to(waited.back())));
  }
  for (int i = 0; i < 40; ++i) EXPECT_EQ(waited[static_cast<std::size_t>(i)]->wait()->texts[0], std::to_string(i));
  EXPECT_LE(most, 4);
  EXPECT_GT(most, 1);
  EXPECT_LE(api.connections(), 6) << "connections are used again";
}

TEST_F(RemoteCalls, HostileAnswersAreErrorsOfTheirCall) {
  auto connection = quick_connection();
  connection.most_reply_bytes = 2000;
  connection.retry.tries = 1;
  const auto backend = open(connection);
  const std::pair<std::string, Error::Kind> answers[] = {
      {std::string(3000, 'x'), Error::Kind::too_large},
      {"", Error::Kind::network},
      {"nothing that is JSON", Error::Kind::network},
      {"[" + std::string(1500, '['), Error::Kind::network},
      {R"({"text": 7, "meta_info": {}})", Error::Kind::network},
      {R"({"text": "x", "meta_info": []})", Error::Kind::network},
      {R"({"text": "x"})", Error::Kind::network},
      {R"({"text": "x", "meta_info": {"finish_reason": null}})", Error::Kind::network},
      {R"("text")", Error::Kind::network},
      {"{\"text\": \"\xff\", \"meta_info\": {\"finish_reason\": {}}}", Error::Kind::network},
  };
  for (const auto& [body, kind] : answers) {
    HttpDoubleReply reply;
    reply.body = body;
    api.only(reply);
    const auto output = generate(*backend, text_document("x"), short_call());
    ASSERT_FALSE(output.ok()) << body;
    EXPECT_EQ(output.error().kind, kind) << body.substr(0, 80) << ": " << output.error().message;
  }
}

TEST_F(RemoteCalls, TextThatIsNoUtf8IsSentWithReplacements) {
  api.next(good());
  ASSERT_TRUE(generate(*open(),
                       text_document("a\xff"
                                     "b"),
                       short_call())
                  .ok());
  EXPECT_EQ(api.body(1)["text"],
            "a\xef\xbf\xbd"
            "b");
}

// A server that keeps its requests and sees whether the client is still there.
struct HoldingServer {
  net::test::Held held;
  net::test::TestServer server{[this](net::HttpRequest request, net::Responder responder) {
    if (request.path == "/get_model_info")
      responder.respond(net::HttpResponse::json(200, R"({"model_path": "m"})"));
    else
      held(std::move(request), std::move(responder));
  }};
  std::shared_ptr<Backend> open(int most_at_once = 256) {
    auto connection = quick_connection();
    connection.most_at_once = most_at_once;
    return *open_native({.base_url = server->url(), .connection = connection});
  }
};

TEST(RemoteCancellation, ADroppedCallClosesItsConnectionAndIsNotHeardOfAgain) {
  HoldingServer server;
  const auto backend = server.open();
  auto waited = std::make_shared<Waited<GenOutput>>();
  auto call = backend->context()->generate(text_document("x"), short_call(), sink_to(waited));
  const auto responder = server.held.next();
  EXPECT_FALSE(responder.closed());
  call.reset();
  EXPECT_TRUE(eventually([&] { return responder.closed(); }));
  EXPECT_TRUE(eventually([&] { return waited.use_count() == 1; })) << "the sinks are let go";
  EXPECT_FALSE(waited->ended());
}

TEST(RemoteCancellation, ACallThatWaitsForItsTurnOrItsNextTryIsLetGoToo) {
  HoldingServer server;
  const auto backend = server.open(1);
  const auto context = backend->context();
  auto first = std::make_shared<Waited<GenOutput>>(), second = std::make_shared<Waited<GenOutput>>();
  auto running = context->generate(text_document("x"), short_call(), sink_to(first));
  auto waiting = context->generate(text_document("y"), short_call(), sink_to(second));
  auto responder = server.held.next();
  waiting.reset();
  EXPECT_TRUE(eventually([&] { return second.use_count() == 1; }));
  net::HttpResponse busy = net::HttpResponse::json(429, "{}");
  busy.headers.set("Retry-After", "2");
  responder.respond(std::move(busy));
  EXPECT_TRUE(eventually([&] { return backend->usage().retries == 1; }));
  running.reset();
  EXPECT_TRUE(eventually([&] { return first.use_count() == 1; }, 1s));
}

TEST(RemoteCancellation, AStreamThatIsDroppedInTheMiddleEndsAtTheServer) {
  HoldingServer server;
  const auto backend = server.open();
  auto waited = std::make_shared<Waited<GenOutput>>();
  GenCall asked = short_call();
  asked.stream = true;
  auto call = backend->context()->generate(text_document("x"), asked, sink_to(waited));
  auto responder = server.held.next();
  auto writer = responder.begin_stream(200, {{"Content-Type", "text/event-stream"}});
  writer.write("data: {\"text\": \"He\", \"meta_info\": {}}\n\n");
  ASSERT_TRUE(waited->wait_for_pieces(1));
  call.reset();
  EXPECT_TRUE(eventually([&] { return writer.closed(); }));
}

TEST(RemoteCancellation, ABackEndMayGoBeforeItsCallsAndFromTheirOwnSink) {
  HoldingServer server;
  auto backend = server.open();
  std::weak_ptr<Backend> alive = backend;
  auto ended = std::make_shared<std::atomic<bool>>(false);
  auto context = backend->context();
  GenSink sink;
  auto kept = std::make_shared<std::shared_ptr<Backend>>(backend);
  sink.on_end = [kept, ended](Result<GenOutput> result) {
    EXPECT_TRUE(result.ok());
    kept->reset();
    *ended = true;
  };
  auto call = context->generate(text_document("x"), short_call(), std::move(sink));
  kept.reset();
  backend.reset();
  context.reset();
  server.held.next().respond(net::HttpResponse::json(200, done("late")));
  EXPECT_TRUE(eventually([&] { return ended->load(); }));
  call.reset();
  EXPECT_TRUE(eventually([&] { return alive.expired(); }));
  const auto next = server.open();  // a new thread, or the old one: it works
  EXPECT_TRUE(next);
}

TEST(RemoteDriver, CarriesOutWorkInOrderAndInTime) {
  const auto driver = Driver::shared();
  ASSERT_TRUE(driver.ok());
  EXPECT_EQ(*Driver::shared(), *driver) << "one for the process";
  std::vector<int> order;
  std::atomic<int> count{0};
  const auto note = [&](int i) { return [&, i] { order.push_back(i), ++count; }; };
  const auto now = Driver::Clock::now();
  (*driver)->at(now + 40ms, note(4));
  (*driver)->at(now + 20ms, note(3));
  (*driver)->post(note(1));
  (*driver)->post(note(2));
  EXPECT_TRUE(eventually([&] { return count == 4; }));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
  EXPECT_FALSE((*driver)->here());
}

TEST(RetryRules, PausesDoubleUpToTheLongestAndKeepTheServersWish) {
  const RetryOptions options{5, 100ms, 300ms};
  EXPECT_EQ(pause_before_next(options, 1, {}, 0), 100ms);
  EXPECT_EQ(pause_before_next(options, 2, {}, 0), 200ms);
  EXPECT_EQ(pause_before_next(options, 3, {}, 0), 300ms);
  EXPECT_EQ(pause_before_next(options, 4, {}, 1), 150ms) << "up to a half is left off at random";
  EXPECT_EQ(pause_before_next(options, 5, {}, 0), std::nullopt);
  EXPECT_EQ(pause_before_next(options, 1, 250ms, 0), 250ms);
  EXPECT_EQ(pause_before_next(options, 1, 301ms, 0), std::nullopt);
  EXPECT_EQ(pause_before_next({1'000'000, 1ms, 60s}, 999'999, {}, 0), 60s);
}

TEST(RetryRules, AWishIsSecondsOrADate) {
  const auto now = std::chrono::system_clock::from_time_t(1'700'000'000);  // Tue, 14 Nov 2023 22:13:20 GMT
  const auto wish = [&](const char* name, const char* value) {
    net::ClientResponse response;
    response.headers = {{name, value}};
    return asked_pause(response, now);
  };
  EXPECT_EQ(wish("Retry-After", "7"), 7000ms);
  EXPECT_EQ(wish("Retry-After", "0.5"), 500ms);
  EXPECT_EQ(wish("retry-after-ms", "120"), 120ms);
  EXPECT_EQ(wish("Retry-After", "Tue, 14 Nov 2023 22:13:30 GMT"), 10000ms);
  EXPECT_EQ(wish("Retry-After", "Tue, 14 Nov 2023 22:13:00 GMT"), 0ms);
  EXPECT_EQ(wish("Retry-After", "soon"), std::nullopt);
  EXPECT_EQ(wish("Retry-After", "-3"), std::nullopt);
  EXPECT_EQ(wish("Other", "7"), std::nullopt);
}

TEST(RetryRules, AnEmptyAccountIsNotAskedAgain) {
  EXPECT_FALSE(worth_retrying({Error::Kind::busy, "", "", "insufficient_quota"}, 429));
  EXPECT_TRUE(worth_retrying({Error::Kind::busy, "", "", ""}, 429));
  EXPECT_FALSE(worth_retrying({Error::Kind::too_large, "", "", ""}, 0));
}

TEST(StopStringSplit, GoToTheServerAsFarAsItTakesThemAndEmptyOnesNowhere) {
  const std::vector<std::string> stop = {"", "a", "\n", "b", ""};
  using Strings = std::vector<std::string>;
  EXPECT_EQ(split_stop_strings(stop, 2, true).by_server, (Strings{"a", "\n"}));
  EXPECT_EQ(split_stop_strings(stop, 2, true).by_client, Strings{"b"});
  EXPECT_EQ(split_stop_strings(stop, 9, false).by_server, (Strings{"a", "b"}));
  EXPECT_EQ(split_stop_strings(stop, 9, false).by_client, Strings{"\n"});
}

TEST(ContentParts, StandWhereTheMarksAre) {
  const std::vector<std::shared_ptr<const Picture>> two = {small_picture(), small_picture()};
  const auto shape = [&](std::string_view text) {
    std::string out;
    for (const ContentPart& part : content_parts(text, two, "<i>"))
      out += part.picture ? "P" : "'" + std::string(part.text) + "'";
    return out;
  };
  EXPECT_EQ(shape("a<i>b<i>"), "'a'P'b'P");
  EXPECT_EQ(shape("<i><i>"), "PP");
  EXPECT_EQ(shape("only one <i>"), "'only one <i>'PP") << "marks and pictures that differ in number: text first";
}

}  // namespace
}  // namespace espalier::lang
