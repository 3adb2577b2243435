#include "net/server/exchange.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "net/http/gzip.h"
#include "net/http/sse.h"
#include "testing/data.h"

namespace espalier::net {
namespace {

struct Fixture {
  int wakes = 0;
  std::shared_ptr<Exchange> exchange;
  explicit Fixture(std::size_t buffer = 100)
      : exchange(std::make_shared<Exchange>(Exchange::Settings{buffer, 0}, [this] { ++wakes; })) {}
  StreamWriter stream() { return Responder(exchange).begin_stream(200, {}); }
  ExchangeOutput take() {
    ExchangeOutput output;
    exchange->take(output);
    return output;
  }
};

TEST(Exchange, WakesOnceForWhatIsThereToTake) {
  Fixture f;
  EXPECT_FALSE(f.take().head);  // sleeps now
  auto writer = f.stream();
  EXPECT_EQ(writer.write("a"), WriteState::ready);
  EXPECT_EQ(writer.write("b"), WriteState::ready);
  EXPECT_EQ(f.wakes, 1);
  auto output = f.take();
  EXPECT_TRUE(output.head);
  EXPECT_EQ(output.bytes, "ab");
  writer.write("c");
  EXPECT_EQ(f.wakes, 1) << "the connection has not gone to sleep since";
  EXPECT_EQ(f.take().bytes, "c");
  f.take();
  writer.finish();
  EXPECT_EQ(f.wakes, 2);
  EXPECT_TRUE(f.take().finished);
}

TEST(Exchange, AFullBufferPausesTheWriterUntilHalfOfItIsSent) {
  Fixture f(100);
  auto writer = f.stream();
  int writable = 0;
  writer.on_writable([&] { ++writable; });
  EXPECT_EQ(writer.write(std::string(99, 'x')), WriteState::ready);
  EXPECT_EQ(writer.write("y"), WriteState::full);
  EXPECT_EQ(writer.write("z"), WriteState::refused);
  EXPECT_EQ(f.take().bytes.size(), 100u);
  EXPECT_EQ(writer.write("z"), WriteState::refused) << "taken is not sent";
  f.exchange->set_in_flight(50);
  EXPECT_EQ(writable, 0);
  f.exchange->set_in_flight(49);
  EXPECT_EQ(writable, 1);
  f.exchange->set_in_flight(0);
  EXPECT_EQ(writable, 1);
  EXPECT_EQ(writer.write("z"), WriteState::ready);
}

TEST(Exchange, RoomThatCameBeforeTheCallbackIsNotMissed) {
  Fixture f(10);
  auto writer = f.stream();
  EXPECT_EQ(writer.write(std::string(10, 'x')), WriteState::full);
  f.take();
  f.exchange->set_in_flight(0);
  int writable = 0;
  writer.on_writable([&] { ++writable; });
  EXPECT_EQ(writable, 1);
}

TEST(Exchange, ADepartedClientIsToldOnceAndEverythingAfterIsDropped) {
  Fixture f;
  auto writer = f.stream();
  int gone = 0;
  writer.on_disconnect([&] { ++gone; });
  writer.write("x");
  f.exchange->disconnect();
  f.exchange->disconnect();
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(writer.closed());
  EXPECT_EQ(writer.write("y"), WriteState::closed);
  writer.on_disconnect([&] { ++gone; });
  EXPECT_EQ(gone, 2) << "who asks late hears at once";
}

TEST(Exchange, CallbacksEndWithTheAnswer) {
  Fixture f;
  auto held = std::make_shared<int>(1);
  std::weak_ptr<int> watch = held;
  Responder responder(f.exchange);
  responder.on_disconnect([held = std::move(held)] { FAIL(); });
  responder.respond(HttpResponse::text(200, "x"));
  EXPECT_TRUE(watch.expired());
  f.exchange->disconnect();
}

TEST(Exchange, ADroppedResponderAndADroppedWriterAreSeen) {
  Fixture dropped, cut, finished;
  {
    Responder responder(dropped.exchange);
  }
  EXPECT_TRUE(dropped.take().dropped);
  {
    auto writer = cut.stream();
  }
  EXPECT_TRUE(cut.take().cut);
  {
    auto writer = finished.stream();
    writer.finish_and_close();
  }
  auto output = finished.take();
  EXPECT_TRUE(output.finished && output.close && !output.cut);
  Responder nobody;
  nobody.respond({});
  EXPECT_TRUE(nobody.begin_stream(200, {}).closed());
}

TEST(Exchange, LargeTextIsCompressedWhenAskedFor) {
  if (!gzip_available()) GTEST_SKIP() << "built without zlib";
  auto exchange = std::make_shared<Exchange>(Exchange::Settings{100, 1000}, [] {});
  Responder(exchange).respond(HttpResponse::text(200, std::string(1000, 'x')));
  ExchangeOutput output;
  ASSERT_TRUE(exchange->take(output));
  EXPECT_EQ(output.response->headers.get("Content-Encoding"), "gzip");
  EXPECT_LT(output.response->body.size(), 100u);
  auto small = std::make_shared<Exchange>(Exchange::Settings{100, 1000}, [] {});
  Responder(small).respond(HttpResponse::text(200, std::string(999, 'x')));
  ASSERT_TRUE(small->take(output));
  EXPECT_EQ(output.response->body.size(), 999u);
}

// Several writers, one connection, a random end: what was taken is what was accepted, in order per writer.
TEST(Exchange, NothingIsLostOrDoubledBetweenThreads) {
  for (int round = 0; round < 30; ++round) {
    std::atomic<int> pending{0};
    auto exchange = std::make_shared<Exchange>(Exchange::Settings{200, 0}, [&] { ++pending; });
    auto writer = Responder(exchange).begin_stream(200, {});
    std::atomic<int> accepted{0}, running{3};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 300;) {
          auto state = writer.write(std::string(1, static_cast<char>('a' + t)));
          if (state == WriteState::closed) break;
          if (state == WriteState::refused) {
            std::this_thread::yield();
            continue;
          }
          ++i, ++accepted;
        }
        --running;
      });
    }
    std::size_t got = 0;
    while (running > 0 || got < static_cast<std::size_t>(accepted)) {
      ExchangeOutput output;
      while (exchange->take(output)) got += output.bytes.size();
      exchange->set_in_flight(0);
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(got, 900u);
    writer.finish();
    ExchangeOutput last;
    EXPECT_TRUE(exchange->take(last) && last.finished);
  }
}

}  // namespace
}  // namespace espalier::net
