#include "net/server/http_server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "net/http/gzip.h"
#include "net/server/router.h"
#include "net/server/test_client.h"
#include "testing/data.h"

namespace espalier::net {
namespace {

using namespace test;

const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

std::string post(std::string_view body, std::string_view fields = "") {
  return "POST /x HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

std::string error_code(const Reply& reply) {
  return nlohmann::json::parse(reply.body)["error"]["code"];
}

TEST(HttpServer, OneConnectionServesManyRequests) {
  TestServer server(echo);
  auto client = server.client();
  for (int i = 0; i < 100; ++i) {
    auto reply = client.ask(post("body " + std::to_string(i)));
    ASSERT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "POST /x\nbody " + std::to_string(i));
    EXPECT_EQ(reply.headers.count("connection"), 0u);
    EXPECT_EQ(reply.headers["date"].size(), 29u);
  }
  EXPECT_EQ(server->stats().requests, 100u);
  EXPECT_EQ(server->stats().connections_open, 1u);
}

TEST(HttpServer, RequestsMayComeByteByByte) {
  TestServer server(echo);
  auto client = server.client();
  client.send_byte_by_byte(post("slow"));
  EXPECT_EQ(client.read_reply().body, "POST /x\nslow");
  client.send_byte_by_byte("POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_reply().body, "POST /c\nabc");
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrderAlsoWhenTheyFinishOutOfOrder) {
  std::mutex mutex;
  std::vector<std::thread> threads;
  TestServer server([&](HttpRequest request, Responder responder) {
    std::lock_guard lock(mutex);
    threads.emplace_back([request = std::move(request), responder = std::move(responder)]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(request.body.size() % 3));
      responder.respond(HttpResponse::text(200, request.body));
    });
  });
  std::string all;
  for (int i = 0; i < 200; ++i) all += post("n" + std::to_string(i * 37 % 200));
  auto client = server.client();
  client.send(all);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(client.read_reply().body, "n" + std::to_string(i * 37 % 200));
  server->stop(0ms);
  for (auto& thread : threads) thread.join();
}

TEST(HttpServer, PipelinedBytesBeyondTheReadAheadStayInTheSocket) {
  std::atomic<int> handled{0};
  std::mutex mutex;
  std::vector<Responder> held;
  TestServer server([&](HttpRequest, Responder responder) {
    std::lock_guard lock(mutex);
    if (handled++ == 0) {
      held.push_back(std::move(responder));
    } else {
      responder.respond(HttpResponse::text(200, "later"));
    }
  });
  auto client = server.client();
  std::thread sender([&] {
    for (int i = 0; i < 100; ++i) client.send(post(std::string(20'000, 'p')));
  });
  ASSERT_TRUE(eventually([&] { return handled == 1; }));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(handled, 1) << "one request of a connection at a time";
  EXPECT_LE(server->stats().bytes_received, 64u * 1024 + 20'000);
  {
    std::lock_guard lock(mutex);
    held.front().respond(HttpResponse::text(200, "first"));
  }
  EXPECT_EQ(client.read_reply().body, "first");
  for (int i = 1; i < 100; ++i) ASSERT_EQ(client.read_reply().body, "later");
  sender.join();
}

TEST(HttpServer, HeadHasTheLengthButNoBody) {
  TestServer server(echo);
  auto client = server.client();
  client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n" + kGet);
  auto head = client.read_reply(true);
  EXPECT_EQ(head.headers["content-length"], "8");
  EXPECT_EQ(client.read_reply().body, "GET /\n");
}

TEST(HttpServer, Http10ClosesUnlessAskedToKeepAlive) {
  TestServer server(echo);
  auto client = server.client();
  auto kept = client.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.headers["connection"], "keep-alive");
  auto last = client.ask("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(last.headers["connection"], "close");
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_FALSE(client.was_reset());
}

TEST(HttpServer, ConnectionCloseIsHonouredAndAbsoluteTargetsAreUnderstood) {
  TestServer server(echo);
  auto client = server.client();
  auto reply = client.ask("GET http://other:1/p?q HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(reply.body, "GET /p\n");
  EXPECT_EQ(reply.headers["connection"], "close");
  EXPECT_TRUE(client.closed_by_server());
}

TEST(HttpServer, RequestIdsAreKeptWhenPrintableAndMadeOtherwise) {
  TestServer server(
      [](HttpRequest request, Responder responder) { responder.respond(HttpResponse::text(200, request.id)); });
  auto client = server.client();
  auto with = [&](std::string_view id) {
    return client.ask("GET / HTTP/1.1\r\nHost: a\r\nx-request-id: " + std::string(id) + "\r\n\r\n");
  };
  EXPECT_EQ(with("abc-1").headers["x-request-id"], "abc-1");
  std::string longest(128, 'i'), too_long(129, 'i');
  EXPECT_EQ(with(longest).headers["x-request-id"], longest);
  for (const auto& unfit : {too_long, std::string("a b"), std::string("caf\xc3\xa9"), std::string()}) {
    auto reply = with(unfit);
    EXPECT_EQ(reply.headers["x-request-id"].size(), 32u) << unfit;
    EXPECT_EQ(reply.headers["x-request-id"], reply.body);
  }
}

TEST(HttpServer, RefusalsHaveOpenAisShapeAndReachTheClient) {
  TestServer server(echo);
  auto client = server.client();
  auto reply = client.ask("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(error_code(reply), "malformed_request");
  EXPECT_EQ(reply.headers["connection"], "close");
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_FALSE(client.was_reset());
}

TEST(HttpServer, AdmissionComesBeforeTheBodyAndBefore100Continue) {
  std::atomic<int> handled{0};
  TestServer server(
      [&](HttpRequest request, Responder responder) { ++handled, echo(std::move(request), std::move(responder)); },
      quiet_options(),
      [](const HttpRequest& head) -> std::optional<HttpResponse> {
        EXPECT_TRUE(head.body.empty());
        if (head.headers.get("Authorization") == "Bearer good") return std::nullopt;
        return openai_error({401, "no key", "invalid_api_key", "", 0});
      });
  auto refused = server.client();
  auto no = refused.ask("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(no.status, 401);
  EXPECT_EQ(no.interim, 0);
  EXPECT_TRUE(refused.closed_by_server());

  auto large = server.client();  // still sending when the answer comes: it must be able to read it
  large.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n");
  large.send(std::string(4'000'000, 'x'));
  EXPECT_EQ(large.read_reply().status, 401);

  auto admitted = server.client();
  admitted.send(
      "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer good\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  ASSERT_TRUE(admitted.read_until("100 Continue\r\n\r\n"));
  auto yes = admitted.ask("hello");
  EXPECT_EQ(yes.interim, 1);
  EXPECT_EQ(yes.body, "POST /\nhello");

  auto bodiless = server.client();  // nothing unread: the connection may go on
  EXPECT_EQ(bodiless.ask(kGet).status, 401);
  EXPECT_EQ(bodiless.ask(kGet).status, 401);
  EXPECT_EQ(handled, 1);
}

TEST(HttpServer, TheRouterRefusesUnknownRoutesBeforeTheirBody) {
  Router router;
  ASSERT_TRUE(
      router.add(Method::post, "/known", [](HttpRequest r, Responder p) { echo(std::move(r), std::move(p)); }).ok());
  TestServer server([&](HttpRequest r, Responder p) { router.dispatch(std::move(r), std::move(p)); }, quiet_options(),
                    [&](const HttpRequest& head) { return router.refuse(head); });
  auto client = server.client();
  EXPECT_EQ(client.ask("GET /unknown HTTP/1.1\r\nHost: a\r\n\r\n").status, 404);
  auto wrong = client.ask("GET /known HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers["allow"], "OPTIONS, POST");
  EXPECT_EQ(client.ask("POST /unknown HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n").status, 404);
  EXPECT_TRUE(client.closed_by_server());
}

TEST(HttpServer, ADroppedResponderAndAThrowingHandlerAnswer500AndTheServerLives) {
  TestServer server([](HttpRequest request, Responder responder) {
    if (request.path == "/throw") throw std::runtime_error("meant by the test");
    if (request.path == "/memory") throw std::bad_alloc();
    if (request.path == "/ok") responder.respond(HttpResponse::text(200, "ok"));
  });
  auto client = server.client();
  auto ask = [&](const std::string& path) { return client.ask("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n"); };
  auto dropped = ask("/drop");
  EXPECT_EQ(dropped.status, 500);
  EXPECT_EQ(error_code(dropped), "internal");
  EXPECT_EQ(ask("/throw").status, 500);
  auto memory = ask("/memory");
  EXPECT_EQ(memory.status, 503);
  EXPECT_EQ(memory.headers["retry-after"], "1");
  EXPECT_EQ(ask("/ok").status, 200);
  EXPECT_EQ(server->stats().handler_failures, 3u);
}

TEST(HttpServer, GzippedBodiesAreUnpackedAndCountedUnpacked) {
  if (!gzip_available()) GTEST_SKIP() << "built without zlib";
  auto options = quiet_options();
  options.parser.body_bytes = 100'000;
  TestServer server(
      [](HttpRequest r, Responder p) { p.respond(HttpResponse::text(200, std::to_string(r.body.size()))); }, options);
  auto client = server.client();
  auto send = [&](std::size_t size) {
    return client.ask(post(*gzip(std::string(size, 'z')), "Content-Encoding: gzip\r\n"));
  };
  EXPECT_EQ(send(99'999).body, "99999");
  EXPECT_EQ(send(100'000).body, "100000");
  EXPECT_EQ(send(100'001).status, 413);
  auto bomb = server.client();
  EXPECT_EQ(bomb.ask(post(*gzip(std::string(8'000'000, 'z')), "Content-Encoding: gzip\r\n")).status, 413);
  auto broken = server.client();
  EXPECT_EQ(broken.ask(post("not gzip", "Content-Encoding: gzip\r\n")).status, 400);
  auto cut = server.client();
  EXPECT_EQ(cut.ask(post(gzip(std::string(5000, 'z'))->substr(0, 20), "Content-Encoding: gzip\r\n")).status, 400);
  auto unknown = server.client();
  EXPECT_EQ(unknown.ask(post("x", "Content-Encoding: br\r\n")).status, 415);
}

TEST(HttpServer, LargeRepliesAreGzippedWhenAskedFor) {
  if (!gzip_available()) GTEST_SKIP() << "built without zlib";
  TestServer server([](HttpRequest, Responder p) { p.respond(HttpResponse::text(200, std::string(50'000, 't'))); });
  auto client = server.client();
  auto packed = client.ask("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br, gzip\r\n\r\n");
  EXPECT_EQ(packed.headers["content-encoding"], "gzip");
  EXPECT_LT(packed.body.size(), 1000u);
  EXPECT_EQ(client.ask(kGet).body.size(), 50'000u);
}

TEST(HttpServer, CorsAnswersPreflightsWithoutAKeyAndDecoratesReplies) {
  auto options = quiet_options();
  options.cors_origins = {"https://page.example"};
  TestServer server(echo, options,
                    [](const HttpRequest&) { return std::optional(openai_error({401, "no key", "", "", 0})); });
  auto client = server.client();
  auto preflight = client.ask(
      "OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: https://page.example\r\nAccess-Control-Request-Method: POST\r\n\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers["access-control-allow-origin"], "https://page.example");
  auto refused = client.ask("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://page.example\r\n\r\n");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers["access-control-allow-origin"], "https://page.example");
  auto other = client.ask("GET / HTTP/1.1\r\nHost: a\r\nOrigin: https://evil.example\r\n\r\n");
  EXPECT_EQ(other.headers.count("access-control-allow-origin"), 0u);
}

TEST(HttpServer, AnswersComeFromAnyThreadAndOutliveTheServer) {
  std::mutex mutex;
  std::vector<Responder> held;
  {
    TestServer server([&](HttpRequest, Responder responder) {
      std::lock_guard lock(mutex);
      held.push_back(std::move(responder));
    });
    auto client = server.client();
    client.send(kGet);
    auto holding = [&] {
      std::lock_guard lock(mutex);
      return held.size();
    };
    ASSERT_TRUE(eventually([&] { return holding() == 1; }));
    std::thread([&] { held.front().respond(HttpResponse::text(200, "thread")); }).join();
    EXPECT_EQ(client.read_reply().body, "thread");
    client.send(kGet);
    ASSERT_TRUE(eventually([&] { return holding() == 2; }));
  }
  EXPECT_TRUE(held.back().closed());
  held.back().respond(HttpResponse::text(200, "nobody listens"));
}

TEST(HttpServer, RandomTrafficOnSeveralIoThreadsIsAnsweredRight) {
  auto options = quiet_options();
  options.io_threads = 3;
  options.max_per_address = 0;
  TestServer server(echo, options);
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      std::mt19937_64 random(testing::seed() + static_cast<unsigned>(c));
      for (int round = 0; round < 20; ++round) {
        auto client = server.client();
        for (std::size_t i = random() % 10; i > 0; --i) {
          std::string body(random() % 3 == 0 ? random() % 200'000 : random() % 200, static_cast<char>('a' + c));
          client.send(post(body));
          if (random() % 16 == 0) break;  // leaves without its answer
          ASSERT_EQ(client.read_reply().body, "POST /x\n" + body) << "seed " << testing::seed();
        }
        if (random() % 4 == 0) client.reset();
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_TRUE(eventually([&] { return server->stats().connections_open == 0; }));
  EXPECT_EQ(server->stats().requests_active, 0u);
}

}  // namespace
}  // namespace espalier::net
