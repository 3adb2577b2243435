#include "net/client/poller.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "base/system/wake_descriptor.h"

namespace espalier::net {
namespace {

using namespace std::chrono_literals;
constexpr auto kLong = 60s;  // nothing here waits for its end

struct Pair {
  UniqueFd ours, theirs;
};

Pair connected() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void send_byte(const UniqueFd& to) {
  EXPECT_EQ(::send(to.get(), "x", 1, 0), 1);
}

Poller opened() {
  auto poller = Poller::open();
  EXPECT_TRUE(poller.ok());
  return std::move(*poller);
}

class PollerTest : public ::testing::Test {
 protected:
  // What is ready of one socket now, in either or both directions.
  Poller::Ready now(const UniqueFd& socket) { return told_of(socket, poller_.wait(0ns)); }
  static Poller::Ready told_of(const UniqueFd& socket, std::span<const Poller::Ready> all) {
    Poller::Ready sum{socket.get()};
    for (const Poller::Ready& ready : all) {
      if (ready.fd != socket.get()) continue;
      sum.readable |= ready.readable;
      sum.writable |= ready.writable;
      sum.failed |= ready.failed;
    }
    return sum;
  }

  Poller poller_ = opened();
};

TEST_F(PollerTest, TellsOfBytesUntilTheyAreRead) {
  const Pair pair = connected();
  ASSERT_TRUE(poller_.watch(pair.ours.get(), {.readable = true}, false));
  EXPECT_TRUE(poller_.wait(0ns).empty());
  send_byte(pair.theirs);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(told_of(pair.ours, poller_.wait(kLong)).readable);
    EXPECT_FALSE(now(pair.ours).writable) << "nobody asked";
  }
  char byte = 0;
  ASSERT_EQ(::recv(pair.ours.get(), &byte, 1, 0), 1);
  EXPECT_TRUE(poller_.wait(0ns).empty());
}

TEST_F(PollerTest, WhatIsWatchedForIsReplaced) {
  const Pair pair = connected();
  ASSERT_TRUE(poller_.watch(pair.ours.get(), {.readable = true, .writable = true}, false));
  send_byte(pair.theirs);
  EXPECT_TRUE(now(pair.ours).readable);
  EXPECT_TRUE(now(pair.ours).writable);
  ASSERT_TRUE(poller_.watch(pair.ours.get(), {.writable = true}, true));
  EXPECT_FALSE(now(pair.ours).readable);
  EXPECT_TRUE(now(pair.ours).writable);
  ASSERT_TRUE(poller_.watch(pair.ours.get(), {.readable = true}, true));
  EXPECT_TRUE(now(pair.ours).readable);
  EXPECT_FALSE(now(pair.ours).writable);
}

TEST_F(PollerTest, WhatIsForgottenIsNotTold) {
  const Pair pair = connected(), other = connected();
  ASSERT_TRUE(poller_.watch(pair.ours.get(), {.readable = true}, false));
  ASSERT_TRUE(poller_.watch(other.ours.get(), {.readable = true}, false));
  send_byte(pair.theirs);
  send_byte(other.theirs);
  poller_.forget(pair.ours.get());
  poller_.forget(pair.ours.get());  // and again
  EXPECT_FALSE(now(pair.ours).readable);
  EXPECT_TRUE(now(other.ours).readable);
}

TEST_F(PollerTest, AClosedNumberThatComesBackIsWatchedWhateverTheHint) {
  for (const bool known : {false, true}) {
    Pair pair = connected();
    ASSERT_TRUE(poller_.watch(pair.ours.get(), {.readable = true}, false));
    const int number = pair.ours.get();
    pair = Pair();
    EXPECT_TRUE(poller_.wait(0ns).empty());
    const Pair next = connected();
    ASSERT_EQ(std::min(next.ours.get(), next.theirs.get()), number);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(poller_.watch(next.ours.get(), {.readable = true}, known));
    send_byte(next.theirs);
    EXPECT_TRUE(now(next.ours).readable);
  }
}

TEST_F(PollerTest, AnEndIsSomethingToRead) {
  Pair pair = connected();
  ASSERT_TRUE(poller_.watch(pair.ours.get(), {.readable = true}, false));
  pair.theirs.reset();
  EXPECT_TRUE(told_of(pair.ours, poller_.wait(kLong)).readable);
}

TEST_F(PollerTest, WhatIsNoSocketIsRefused) {
  EXPECT_FALSE(poller_.watch(-1, {.readable = true}, false));
  EXPECT_FALSE(poller_.watch(-1, {.writable = true}, true));
}

TEST_F(PollerTest, ManyAreTold) {
  std::vector<Pair> pairs(50);
  for (Pair& pair : pairs) {
    pair = connected();
    ASSERT_TRUE(poller_.watch(pair.ours.get(), {.readable = true}, false));
    send_byte(pair.theirs);
  }
  const auto told = poller_.wait(kLong);
  for (const Pair& pair : pairs) EXPECT_TRUE(told_of(pair.ours, told).readable);
}

TEST_F(PollerTest, ARingFromAnotherThreadEndsAWait) {
  const auto wake = WakeDescriptor::open();
  ASSERT_TRUE(wake.ok());
  ASSERT_TRUE(poller_.watch(wake->get(), {.readable = true}, false));
  EXPECT_TRUE(poller_.wait(0ns).empty());
  std::thread other([&] {
    for (int i = 0; i < 3; ++i) wake->notify();
  });
  const auto told = poller_.wait(kLong);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].fd, wake->get());
  other.join();
  wake->clear();
  EXPECT_TRUE(poller_.wait(0ns).empty()) << "all rings are cleared at once";
  wake->notify();
  EXPECT_EQ(poller_.wait(kLong).size(), 1u);
}

}  // namespace
}  // namespace espalier::net
