#include "base/sockets/timed_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include "testing/data.h"

namespace espalier::timed_socket_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

WaitUntil in(std::chrono::milliseconds time, const CancelFlag& stop = {}) {
  return {std::chrono::steady_clock::now() + time, stop};
}
WaitUntil soon() {
  return in(20s);
}

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    a.reset(ends[0]);
    b.reset(ends[1]);
  }
  UniqueFd a, b;
};

std::vector<std::byte> some_bytes(std::size_t count) {
  std::mt19937_64 rng(testing::seed());
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  return bytes;
}

TEST(TimedSocket, WhatOneSendsInAnyPiecesTheOtherReceives) {
  const Pair pair;
  const auto bytes = some_bytes(3'000'000);  // far more than a socket takes at once
  std::jthread sender([&] { EXPECT_TRUE(send_all(pair.a.get(), bytes, soon()).ok()); });
  std::vector<std::byte> came(bytes.size());
  std::mt19937_64 rng(testing::seed());
  for (std::size_t at = 0; at < came.size();) {
    const auto count = std::min<std::size_t>(rng() % 300'000, came.size() - at);
    const auto done = receive_all(pair.b.get(), std::span(came).subspan(at, count), soon());
    ASSERT_TRUE(done.ok()) << done.error().message;
    at += count;
  }
  EXPECT_EQ(came, bytes);
}

TEST(TimedSocket, NothingThatComesIsATimeout) {
  const Pair pair;
  std::vector<std::byte> bytes(3'000'000);
  const auto came = receive_all(pair.b.get(), std::span(bytes).first(1), in(30ms));
  ASSERT_FALSE(came.ok());
  EXPECT_EQ(came.error().kind, Error::Kind::timeout);
  const auto sent = send_all(pair.a.get(), bytes, in(30ms));  // nobody reads
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().kind, Error::Kind::timeout);
  EXPECT_EQ(wait_on(pair.a.get(), POLLIN, in(-1s)).error().kind, Error::Kind::timeout);
}

TEST(TimedSocket, ARaisedFlagEndsAWaitOfHours) {
  const Pair pair;
  const CancelFlag stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    stop.cancel();
  });
  std::byte byte;
  const auto start = std::chrono::steady_clock::now();
  const auto came = receive_all(pair.b.get(), std::span(&byte, 1), in(1h, stop));
  ASSERT_FALSE(came.ok());
  EXPECT_EQ(came.error().kind, Error::Kind::timeout);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST(TimedSocket, AnEndThatIsClosedIsTold) {
  Pair pair;
  pair.a.reset();
  std::byte byte{};
  const auto came = receive_all(pair.b.get(), std::span(&byte, 1), soon());
  ASSERT_FALSE(came.ok());
  EXPECT_EQ(came.error().kind, Error::Kind::network);
  EXPECT_THAT(came.error().message, HasSubstr("closed"));
  const auto sent = send_all(pair.b.get(), std::span(&byte, 1), soon());
  ASSERT_FALSE(sent.ok()) << "and no signal ends the process";
  EXPECT_EQ(sent.error().kind, Error::Kind::network);
}

TEST(TimedSocket, ConnectsWhereSomebodyListensAndTellsWhereNobodyDoes) {
  UniqueFd listening = listen_at({"127.0.0.1", 0}, {"a test", "port"}).value();
  const HostAndPort where{"127.0.0.1", port_of(listening.get())};
  const auto connection = connect_to(where, soon());
  ASSERT_TRUE(connection.ok()) << connection.error().message;
  EXPECT_EQ(host_and_port(peer_address(connection->get())), where);
  listening.reset();
  const auto refused = connect_to(where, soon());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::network);
  EXPECT_EQ(connect_to({"no such host", 1}, soon()).error().kind, Error::Kind::network);
}

TEST(TimedSocket, OnlyAllowedAddressesAreConnectedTo) {
  const UniqueFd listening = listen_at({"127.0.0.1", 0}, {"a test", "port"}).value();
  const HostAndPort where{"127.0.0.1", port_of(listening.get())};
  int looked_at = 0;
  const auto refused = connect_to(where, soon(), [&](const SocketAddress&) { return ++looked_at < 0; });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::network);
  EXPECT_THAT(refused.error().message, HasSubstr("not allowed"));
  EXPECT_EQ(looked_at, 1);
  pollfd waited{listening.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&waited, 1, 0), 0) << "nobody called";
  EXPECT_TRUE(connect_to(where, soon(), is_local).ok());
}

TEST(TimedSocket, ConnectingTakesNoLongerThanItMay) {
  // A queue of one that nobody takes from: further callers get no answer.
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM, 0));
  const SocketAddress anywhere = look_up({"127.0.0.1", 0})->front();
  ASSERT_EQ(::bind(listening.get(), anywhere.get(), anywhere.length), 0);
  ASSERT_EQ(::listen(listening.get(), 0), 0);
  std::vector<UniqueFd> callers;
  for (int i = 0; i < 8; ++i) {
    auto connection = connect_to({"127.0.0.1", port_of(listening.get())}, in(100ms));
    if (!connection.ok()) {
      EXPECT_EQ(connection.error().kind, Error::Kind::timeout);
      return;
    }
    callers.push_back(std::move(*connection));
  }
  GTEST_SKIP() << "left out: this system lets all of them wait in the queue";
}

TEST(TimedSocket, PathsThatAreTooLongAreNotCut) {
  const auto connection = connect_to_path("/tmp/" + std::string(200, 'x'), soon());
  ASSERT_FALSE(connection.ok());
  EXPECT_EQ(connection.error().kind, Error::Kind::network);
  EXPECT_THAT(connection.error().message, HasSubstr("too long"));
  EXPECT_FALSE(connect_to_path("/nowhere/at/all", soon()).ok());
}

}  // namespace
}  // namespace espalier::timed_socket_test
