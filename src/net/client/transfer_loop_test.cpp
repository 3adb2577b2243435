#include "net/client/transfer_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "testing/http_double.h"

namespace espalier::net {
namespace {

using espalier::testing::HttpDouble;
using espalier::testing::HttpDoubleReply;
using espalier::testing::HttpDoubleRequest;
using namespace std::chrono_literals;

ClientRequest post(std::string url, std::string body) {
  ClientRequest request;
  request.method = Method::post;
  request.url = std::move(url);
  request.headers = {{"Content-Type", "text/plain"}};
  request.body = std::move(body);
  return request;
}

HttpDoubleReply echo(const HttpDoubleRequest& request) {
  HttpDoubleReply reply;
  reply.body = request.body;
  return reply;
}

std::unique_ptr<TransferLoop> open_loop(const TransferLoop::Options& options = {}) {
  auto loop = TransferLoop::open(options);
  EXPECT_TRUE(loop.ok());
  return std::move(*loop);
}

void run_all(TransferLoop& loop) {
  const auto end = std::chrono::steady_clock::now() + 50s;
  while (loop.active() > 0 && std::chrono::steady_clock::now() < end) loop.run(100ms);
  ASSERT_EQ(loop.active(), 0u);
}

TEST(TransferLoop, StreamsManyAnswersAtOnceOnOneThread) {
  std::atomic<int> now{0}, most{0};
  HttpDouble server([&](const HttpDoubleRequest& request) {
    most = std::max<int>(most, ++now);
    std::this_thread::sleep_for(50ms);
    --now;
    HttpDoubleReply reply = echo(request);
    reply.piece = 100;
    reply.pause = 1ms;
    return reply;
  });
  auto loop = open_loop();
  struct Pieces : BodySink {
    explicit Pieces(std::string& into) : text(into) {}
    Result<> on_head(const ClientResponse&) override { return success(); }
    Result<> on_body(std::string_view piece) override {
      text += piece;
      return success();
    }
    std::string& text;
  };
  std::map<int, std::string> bodies, heard;
  const auto here = std::this_thread::get_id();
  for (int i = 0; i < 60; ++i) {
    bodies[i] = std::string(static_cast<std::size_t>(500 + i), static_cast<char>('a' + i % 26));
    loop->start(post(server.url(), bodies[i]), std::make_unique<Pieces>(heard[i]), [&](Result<ClientResponse> answer) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      ASSERT_TRUE(answer.ok()) << answer.error().message;
      EXPECT_EQ(answer->status, 200);
    });
  }
  EXPECT_EQ(loop->active(), 60u);
  run_all(*loop);
  EXPECT_EQ(heard, bodies);
  EXPECT_GT(most, 10);
}

TEST(TransferLoop, KeepsBodiesWithoutASinkAndUsesConnectionsAgain) {
  HttpDouble server(echo);
  auto loop = open_loop();
  int left = 20;
  std::string heard;
  std::function<void(Result<ClientResponse>)> next = [&](Result<ClientResponse> answer) {
    ASSERT_TRUE(answer.ok());
    heard += answer->body;
    if (--left > 0) loop->start(post(server.url(), std::to_string(left % 10)), nullptr, next);
  };
  loop->start(post(server.url(), "x"), nullptr, next);
  run_all(*loop);
  EXPECT_EQ(heard, "x9876543210987654321");
  EXPECT_EQ(server.connections(), 1);
}

TEST(TransferLoop, OpensAConnectionForEachRequestWhenAsked) {
  HttpDouble server(echo);
  auto loop = open_loop({.fresh_connections = true});
  for (int i = 0; i < 3; ++i) {
    loop->start(post(server.url(), "x"), nullptr, [](auto answer) { EXPECT_TRUE(answer.ok()); });
    run_all(*loop);
  }
  EXPECT_EQ(server.connections(), 3);
}

TEST(TransferLoop, FailuresComeToTheirOwnRequestOnly) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    HttpDoubleReply reply = echo(request);
    if (request.target == "/cut") reply.cut_after = 2;
    if (request.target == "/status") reply.status = 429;
    if (request.target == "/slow") reply.pause = 3s;
    return reply;
  });
  auto loop = open_loop();
  std::map<std::string, std::string> outcome;
  auto note = [&](const std::string& name) {
    return [&outcome, name](Result<ClientResponse> answer) {
      outcome[name] = answer.ok() ? std::to_string(answer->status) : answer.error().message;
    };
  };
  for (const char* path : {"/good", "/cut", "/status"})
    loop->start(post(server.url(path), "hello"), nullptr, note(path));
  ClientRequest slow = post(server.url("/slow"), "hello");
  slow.idle_timeout = 200ms;
  loop->start(std::move(slow), nullptr, note("/slow"));
  loop->start(post("ftp://x/", ""), nullptr, note("scheme"));
  loop->start(post("http://127.0.0.1:1/", ""), nullptr, note("closed"));
  run_all(*loop);
  EXPECT_EQ(outcome["/good"], "200");
  EXPECT_EQ(outcome["/status"], "429");
  EXPECT_NE(outcome["/cut"].find("broke after 2 bytes"), std::string::npos) << outcome["/cut"];
  EXPECT_NE(outcome["/slow"].find("sent nothing for 200 ms"), std::string::npos) << outcome["/slow"];
  EXPECT_NE(outcome["scheme"].find("only http"), std::string::npos) << outcome["scheme"];
  EXPECT_NE(outcome["closed"].find("nothing answers"), std::string::npos) << outcome["closed"];
}

TEST(TransferLoop, ASinksErrorAndAStopTokenEndARequest) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    HttpDoubleReply reply = echo(request);
    reply.piece = 1;
    reply.pause = 20ms;
    return reply;
  });
  struct Refuses : BodySink {
    Result<> on_head(const ClientResponse&) override { return success(); }
    Result<> on_body(std::string_view) override { return bad_request("enough"); }
  };
  auto loop = open_loop();
  std::string refused, stopped;
  loop->start(post(server.url(), "abc"), std::make_unique<Refuses>(),
              [&](Result<ClientResponse> answer) { refused = answer.error().message; });
  std::stop_source stop;
  ClientRequest request = post(server.url(), std::string(1000, 'x'));
  request.stop = stop.get_token();
  loop->start(std::move(request), nullptr, [&](Result<ClientResponse> answer) { stopped = answer.error().message; });
  for (int i = 0; i < 20; ++i) loop->run(10ms);
  EXPECT_EQ(refused, "enough");
  EXPECT_EQ(stopped, "");
  stop.request_stop();
  run_all(*loop);
  EXPECT_EQ(stopped, "cancelled");
}

TEST(TransferLoop, AWakeEndsTheTurnOfAnIdleLoop) {
  auto loop = open_loop();
  loop->wake();
  loop->run(1h);  // a wake before the turn counts
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    loop->wake();
  });
  loop->run(1h);
  other.join();
  const auto before = std::chrono::steady_clock::now();
  loop->run(30ms);  // and each only once
  EXPECT_GE(std::chrono::steady_clock::now() - before, 30ms);
}

TEST(TransferLoop, DropsWhatIsUnderWayWhenItGoes) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    HttpDoubleReply reply = echo(request);
    reply.pause = 100ms;
    return reply;
  });
  bool called = false;
  {
    auto loop = open_loop();
    loop->start(post(server.url(), "x"), nullptr, [&](auto) { called = true; });
    loop->run(20ms);
    loop->start(post(server.url(), "x"), nullptr, [&](auto) { called = true; });
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace espalier::net
