#include <gtest/gtest.h>
#include <sys/resource.h>

#include <mutex>
#include <random>

#include "net/http/sse.h"
#include "net/server/test_client.h"
#include "testing/data.h"

namespace espalier::net {
namespace {

using namespace test;

const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

// Writes until the buffer stays full, so the kernel's is too; the bytes accepted.
std::size_t fill(StreamWriter& writer, std::string_view event) {
  std::size_t accepted = 0;
  for (int refused = 0; refused < 100;) {
    auto state = writer.write(event);
    if (state == WriteState::closed) break;
    if (state == WriteState::refused) {
      ++refused;
      std::this_thread::sleep_for(1ms);
    } else {
      refused = 0;
      accepted += event.size();
    }
  }
  return accepted;
}

struct Stream : ::testing::Test {
  Held held;
  TestServer start(ServerOptions options = quiet_options()) {
    return TestServer([this](HttpRequest r, Responder p) { held(std::move(r), std::move(p)); }, std::move(options));
  }
};

TEST_F(Stream, EventsArriveOneByOneAndTheConnectionGoesOn) {
  auto server = start();
  auto client = server.client();
  for (int round = 0; round < 3; ++round) {
    client.send(kGet);
    auto writer = begin_sse(held.next());
    ASSERT_TRUE(client.read_until("\r\n\r\n"));
    EXPECT_NE(client.buffer().find("Content-Type: text/event-stream; charset=utf-8"), std::string::npos);
    EXPECT_NE(client.buffer().find("Cache-Control: no-cache"), std::string::npos);
    EXPECT_NE(client.buffer().find("X-Accel-Buffering: no"), std::string::npos);
    for (int i = 0; i < 5; ++i) {
      auto event = sse_event("{\"i\":" + std::to_string(i) + "}");
      EXPECT_EQ(writer.write(event), WriteState::ready);
      ASSERT_TRUE(client.read_until(event)) << "an event must not wait for the next one";
    }
    writer.finish();
    auto reply = client.read_reply();
    EXPECT_TRUE(reply.whole);
    EXPECT_EQ(reply.body.size(), 5 * sse_event("{\"i\":0}").size());
  }
}

TEST_F(Stream, Http10StreamsEndWithTheConnection) {
  auto server = start();
  auto client = server.client();
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto writer = begin_sse(held.next());
  writer.write("data: x\n\n");
  writer.finish();
  auto reply = client.read_reply();
  EXPECT_EQ(reply.body, "data: x\n\n");
  EXPECT_EQ(reply.headers["connection"], "close");
}

TEST_F(Stream, APingBreaksTheSilenceAndOnlyTheSilence) {
  auto server = start();
  auto client = server.client();
  client.send(kGet);
  auto writer = begin_sse(held.next(), {}, 100ms);
  ASSERT_TRUE(client.read_until(": ping\n\n"));
  client.buffer().clear();
  for (int i = 0; i < 10; ++i) {
    writer.write("data: x\n\n");
    std::this_thread::sleep_for(20ms);
  }
  client.read_until("never", 1ms);
  EXPECT_EQ(client.buffer().find("ping"), std::string::npos);
  ASSERT_TRUE(client.read_until(": ping\n\n"));
  writer.finish();
}

TEST_F(Stream, ACutStreamDoesNotLookWhole) {
  auto server = start();
  auto client = server.client();
  client.send(kGet);
  {
    auto writer = begin_sse(held.next());
    writer.write("data: x\n\n");
  }
  auto reply = client.read_reply();
  EXPECT_EQ(reply.body, "data: x\n\n");
  EXPECT_FALSE(reply.whole);
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(Stream, FinishAndCloseClosesAfterTheLastEvent) {
  auto server = start();
  auto client = server.client();
  client.send(kGet);
  auto writer = begin_sse(held.next());
  writer.write("event: error\ndata: {}\n\n");
  writer.finish_and_close();
  EXPECT_TRUE(client.read_reply().whole);
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(Stream, ASlowReaderPausesItsOwnProducerOnly) {
  auto options = quiet_options();
  options.stream_buffer_bytes = 64 * 1024;
  auto server = start(options);
  auto slow = server.client(4096), quick = server.client();
  slow.send(kGet);
  auto slow_writer = begin_sse(held.next());
  std::atomic<int> writable{0};
  slow_writer.on_writable([&] { ++writable; });
  std::string event = "data: " + std::string(1000, 'x') + "\n\n";
  std::size_t accepted = fill(slow_writer, event);
  EXPECT_EQ(slow_writer.write(event), WriteState::refused);
  int before = writable;
  EXPECT_LT(accepted, 64u << 20) << "the kernel's buffers and ours, not the heap";

  quick.send(kGet);
  auto quick_writer = begin_sse(held.next());
  quick_writer.write("data: quick\n\n");
  EXPECT_TRUE(quick.read_until("data: quick")) << "another stream must not notice";

  std::thread reader([&] {
    auto reply = slow.read_reply();
    EXPECT_TRUE(reply.whole);
    EXPECT_EQ(reply.body.size(), accepted + event.size());
  });
  EXPECT_TRUE(eventually([&] { return writable > before; }));
  EXPECT_EQ(slow_writer.write(event), WriteState::ready);
  slow_writer.finish();
  reader.join();
}

TEST_F(Stream, AReaderThatTakesNothingIsDropped) {
  auto options = quiet_options();
  options.write_timeout = 200ms;
  auto server = start(options);
  auto client = server.client(4096);
  client.send(kGet);
  auto writer = begin_sse(held.next());
  std::atomic<bool> gone{false};
  writer.on_disconnect([&] { gone = true; });
  fill(writer, std::string(100'000, 'x'));
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
  EXPECT_EQ(server->stats().slow_readers_dropped, 1u);
  EXPECT_EQ(writer.write("more"), WriteState::closed);
}

TEST_F(Stream, AHeadRequestToAStreamHasNoBody) {
  auto server = start();
  auto client = server.client();
  client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + kGet);
  auto writer = begin_sse(held.next());
  writer.write("data: x\n\n");
  writer.finish();
  EXPECT_EQ(client.read_reply(true).status, 200);
  held.next().respond(HttpResponse::text(200, "next"));
  EXPECT_EQ(client.read_reply().body, "next");
}

TEST_F(Stream, AThousandStreamsAtOnceAllArriveWhole) {
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  rlimit raised{descriptors.rlim_max, descriptors.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &raised);
  std::size_t count = std::min<std::size_t>(1000, (raised.rlim_cur - 200) / 2);
  if (count < 1000) std::printf("only %zu streams: the descriptor limit is too low\n", count);
  auto options = quiet_options();
  options.max_per_address = 0;
  auto server = start(options);
  std::vector<RawClient> clients;
  std::vector<StreamWriter> writers;
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(server.client());
    ASSERT_TRUE(clients.back().connected());
    clients.back().send(kGet);
    writers.push_back(begin_sse(held.next()));
  }
  constexpr int kEvents = 20;
  for (int e = 0; e < kEvents; ++e) {
    for (auto& writer : writers) ASSERT_EQ(writer.write(sse_event(std::to_string(e))), WriteState::ready);
  }
  for (auto& writer : writers) writer.finish();
  std::string expected;
  for (int e = 0; e < kEvents; ++e) expected += sse_event(std::to_string(e));
  for (auto& client : clients) {
    auto reply = client.read_reply();
    ASSERT_TRUE(reply.whole);
    ASSERT_EQ(reply.body, expected);
  }
  ::setrlimit(RLIMIT_NOFILE, &descriptors);
}

// Clients leave at random points while several threads write; the books must balance afterwards.
TEST_F(Stream, RandomDeparturesLeaveNothingBehind) {
  auto options = quiet_options();
  options.max_per_address = 0;
  options.io_threads = 2;
  std::mutex mutex;
  std::vector<std::thread> producers;
  std::atomic<int> ended{0};
  TestServer server(
      [&](HttpRequest request, Responder responder) {
        std::lock_guard lock(mutex);
        producers.emplace_back([&ended, id = request.id, responder = std::move(responder)]() mutable {
          auto writer = begin_sse(std::move(responder));
          std::string event = sse_event(std::string(500, 'e'));
          for (int i = 0; i < 200 && !writer.closed(); ++i) {
            if (writer.write(event) == WriteState::refused) std::this_thread::sleep_for(1ms);
          }
          writer.finish();
          ++ended;
        });
      },
      options);
  std::mt19937_64 random(testing::seed());
  for (int i = 0; i < 60; ++i) {
    auto client = server.client();
    client.send(kGet);
    for (std::size_t reads = random() % 8; reads > 0; --reads) client.read_more(50ms);
    if (random() % 3 == 0) client.reset();
  }
  EXPECT_TRUE(
      eventually([&] { return server->stats().requests_active == 0 && server->stats().connections_open == 0; }));
  server->stop(0ms);
  for (auto& producer : producers) producer.join();
  EXPECT_EQ(static_cast<std::size_t>(ended), producers.size());
}

}  // namespace
}  // namespace espalier::net
