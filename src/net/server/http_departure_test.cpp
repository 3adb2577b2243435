// A client that leaves is noticed at once, whatever it left; one that only stopped sending is not given up.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "net/http/sse.h"
#include "net/server/test_client.h"

namespace espalier::net {
namespace {

using namespace test;

const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

// When a client left and when that was told. The promise is "less than a decode step + 100 ms", but no test asserts
// time.
class Departure {
 public:
  std::function<void()> callback() {
    return [this] { told_ = Clock::now().time_since_epoch().count(); };
  }
  void begin() { begin_ = Clock::now(); }
  void print(const char* what) {
    EXPECT_TRUE(eventually([&] { return told_ != 0; })) << what;
    auto took = Clock::duration(told_.load()) - begin_.time_since_epoch();
    std::printf("%-60s noticed after %lld us\n", what,
                static_cast<long long>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  }

 private:
  Clock::time_point begin_;
  std::atomic<Clock::rep> told_{0};
};

struct Departures : ::testing::Test {
  Held held;
  TestServer start(ServerOptions options = quiet_options()) {
    return TestServer([this](HttpRequest r, Responder p) { held(std::move(r), std::move(p)); }, std::move(options));
  }
};

TEST_F(Departures, ADepartedClientIsNoticedWhileItsRequestIsPending) {
  auto server = start();
  struct Row {
    const char* what;
    void (RawClient::*leave)();
  };
  for (const Row& row : {Row{"pending, closed", &RawClient::close}, Row{"pending, reset", &RawClient::reset}}) {
    auto client = server.client();
    client.send(kGet);
    auto responder = held.next();
    Departure departure;
    responder.on_disconnect(departure.callback());
    departure.begin();
    (client.*row.leave)();
    departure.print(row.what);
    EXPECT_TRUE(responder.closed());
  }
  EXPECT_TRUE(eventually([&] { return server->stats().connections_open == 0; }));
  EXPECT_EQ(server->stats().clients_gone, 2u);
}

TEST_F(Departures, ADepartedClientIsNoticedWhileItsStreamIsSilent) {
  auto server = start();
  for (bool reset : {false, true}) {
    auto client = server.client();
    client.send(kGet);
    auto writer = begin_sse(held.next());
    writer.write("data: x\n\n");
    ASSERT_TRUE(client.read_until("data: x"));
    Departure departure;
    writer.on_disconnect(departure.callback());
    departure.begin();
    reset ? client.reset() : client.close();
    departure.print(reset ? "silent stream, reset" : "silent stream, closed");
  }
}

TEST_F(Departures, ADepartedClientIsNoticedBehindUnreadPipelinedBytes) {
  auto server = start();
  for (bool reset : {false, true}) {
    auto client = server.client();
    client.send(kGet);
    auto responder = held.next();
    std::string more = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x');
    client.send(more);
    std::this_thread::sleep_for(20ms);  // the read-ahead is full and the rest waits in the kernel
    Departure departure;
    responder.on_disconnect(departure.callback());
    departure.begin();
    reset ? client.reset() : client.close();
    departure.print(reset ? "full read-ahead, reset" : "full read-ahead, closed");
  }
}

TEST_F(Departures, ADepartedClientIsNoticedOnHttp10AndOnStreamsWithoutHeartbeat) {
  auto server = start();
  auto old = server.client();
  old.send("GET / HTTP/1.0\r\n\r\n");
  auto responder = held.next();
  Departure first, second;
  responder.on_disconnect(first.callback());
  first.begin();
  old.close();
  first.print("HTTP/1.0 pending, closed");

  auto client = server.client();
  client.send(kGet);
  auto writer = held.next().begin_stream(200, {{"Content-Type", "application/x-ndjson"}});
  writer.on_disconnect(second.callback());
  second.begin();
  client.close();
  second.print("stream without heartbeat, closed");
}

TEST_F(Departures, AHalfClosedClientStillGetsItsAnswer) {
  auto server = start();
  auto client = server.client();
  client.send(kGet);
  auto responder = held.next();
  std::atomic<bool> gone{false};
  responder.on_disconnect([&] { gone = true; });
  client.half_close();
  ASSERT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n")) << "the probe";
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(gone);
  responder.respond(HttpResponse::text(200, "answer"));
  auto reply = client.read_reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "answer");
  EXPECT_TRUE(client.closed_by_server());

  auto streaming = server.client();
  streaming.send(kGet);
  auto writer = begin_sse(held.next());
  streaming.half_close();
  ASSERT_TRUE(streaming.read_until(": ping"));
  writer.write("data: x\n\n");
  writer.finish();
  EXPECT_TRUE(streaming.read_reply().whole);
}

TEST_F(Departures, AnImmediateAnswerToAHalfClosedClientNeedsNoProbe) {
  TestServer server(echo);
  auto client = server.client();
  client.send(kGet + kGet);
  client.half_close();
  for (int i = 0; i < 2; ++i) {
    auto reply = client.read_reply();
    EXPECT_EQ(reply.body, "GET /\n");
    EXPECT_EQ(reply.interim, 0);
  }
}

TEST_F(Departures, WithHalfCloseOffTheEndOfInputMeansGone) {
  auto options = quiet_options();
  options.half_close = false;
  auto server = start(options);
  auto client = server.client();
  client.send(kGet);
  auto responder = held.next();
  std::atomic<bool> gone{false};
  responder.on_disconnect([&] { gone = true; });
  client.half_close();
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

// A client that sends urgent data must not make the io thread spin.
TEST_F(Departures, UrgentDataDoesNoHarm) {
  auto server = start();
  auto client = server.client();
  client.send(kGet);
  auto responder = held.next();
  ::send(client.fd(), "!", 1, MSG_OOB | MSG_NOSIGNAL);
  client.half_close();
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(300ms);
  ::getrusage(RUSAGE_SELF, &after);
  auto used =
      (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1'000'000 + after.ru_utime.tv_usec - before.ru_utime.tv_usec;
  EXPECT_LT(used, 200'000) << "it spins";
  std::atomic<bool> gone{false};
  responder.on_disconnect([&] { gone = true; });
  client.close();
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

}  // namespace
}  // namespace espalier::net
