#include "ranks/tcp/greeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace espalier::ranks {
namespace {

using ::testing::HasSubstr;

Hello hello_of(int node) {
  Hello hello;
  hello.node = node;
  hello.nodes = 2;
  hello.size = 4;
  hello.pid = 100 + node;
  hello.port = static_cast<std::uint16_t>(5000 + node);
  hello.max_part_bytes = 1u << 20;
  hello.has_secret = true;
  hello.nonce = random_nonce();
  hello.version = "0.1.0";
  hello.key = "model";
  hello.host = "host-" + std::to_string(node);
  return hello;
}

// Both ends of a greeting, carried on until both have come to an end.
struct Both {
  Both(Hello caller, Hello called, const std::string& secret_of_caller, const std::string& secret_of_called) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
    calls.emplace(FrameSocket(UniqueFd(ends[0])), true, std::move(caller), secret_of_caller);
    is_called.emplace(FrameSocket(UniqueFd(ends[1])), false, std::move(called), secret_of_called);
    for (int i = 0; i < 5; ++i) {
      end_of_caller = calls->advance();
      end_of_called = is_called->advance();
    }
  }
  std::optional<Greeting> calls, is_called;
  GreetingEnd end_of_caller = GreetingEnd::pending, end_of_called = GreetingEnd::pending;
};

TEST(Greeting, RanksThatBelongTogetherAgree) {
  Both both(hello_of(1), hello_of(0), "s", "s");
  EXPECT_EQ(both.end_of_caller, GreetingEnd::agreed);
  EXPECT_EQ(both.end_of_called, GreetingEnd::agreed);
  EXPECT_EQ(both.is_called->theirs().host, "host-1");
  EXPECT_EQ(both.calls->theirs().port, 5000);
}

TEST(Greeting, OtherSecretsAreForeignToBoth) {
  Both both(hello_of(1), hello_of(0), "s", "S");
  EXPECT_EQ(both.end_of_caller, GreetingEnd::foreign);
  EXPECT_EQ(both.end_of_called, GreetingEnd::foreign);
  EXPECT_EQ(both.calls->error().kind, Error::Kind::unauthorized);
  EXPECT_THAT(both.calls->error().message, HasSubstr("different secrets"));
}

TEST(Greeting, WhatMustBeEqualIsNamedOnBothSides) {
  const auto told = [](auto change, const std::string& word) {
    Hello other = hello_of(1);
    change(other);
    Both both(other, hello_of(0), "s", "s");
    for (const auto* side : {&both.calls, &both.is_called}) EXPECT_THAT((*side)->error().message, HasSubstr(word));
    EXPECT_EQ(both.end_of_caller, GreetingEnd::disagrees);
    EXPECT_EQ(both.end_of_called, GreetingEnd::disagrees);
  };
  told([](Hello& hello) { hello.version = "0.2.0"; }, "has version \"0.");
  told([](Hello& hello) { hello.key = "other"; }, "model and options");
  told([](Hello& hello) { hello.size = 8; }, "--tp-size");
  told([](Hello& hello) { hello.nodes = 3; }, "--nnodes");
  told([](Hello& hello) { hello.max_part_bytes = 1; }, "bytes of a part");
  told([](Hello& hello) { hello.node = 0; }, "--node-rank 0");
}

TEST(Greeting, AnotherProtocolIsRefusedWithAWord) {
  Hello newer = hello_of(1);
  newer.protocol = 2;
  Both both(newer, hello_of(0), "s", "s");
  EXPECT_EQ(both.end_of_called, GreetingEnd::foreign);
  EXPECT_EQ(both.end_of_caller, GreetingEnd::foreign);
  EXPECT_THAT(both.calls->error().message, HasSubstr("version 2 of the ranks' protocol"));
}

TEST(Greeting, AProofOfAnotherGreetingIsWorthNothing) {
  const Hello called = hello_of(0);
  Both first(hello_of(1), called, "s", "s");
  ASSERT_EQ(first.end_of_called, GreetingEnd::agreed);
  Both again(hello_of(1), called, "", "s");  // who knows all that went over the line, but not the secret
  EXPECT_EQ(again.end_of_called, GreetingEnd::foreign);
}

TEST(Greeting, WhoLeavesBeforeTheEndIsForeign) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Greeting greeting(FrameSocket{UniqueFd(ends[0])}, false, hello_of(0), "s");
  EXPECT_EQ(greeting.advance(), GreetingEnd::pending);
  ::close(ends[1]);
  EXPECT_EQ(greeting.advance(), GreetingEnd::foreign);
}

TEST(Hello, IsReadAsItWasWritten) {
  const Hello hello = hello_of(1);
  const auto again = read_hello(to_bytes(hello));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(to_bytes(*again), to_bytes(hello));
  const std::string bytes = to_bytes(hello);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) EXPECT_FALSE(read_hello(bytes.substr(0, cut)).ok()) << cut;
  EXPECT_FALSE(read_hello(bytes + "x").ok());
}

}  // namespace
}  // namespace espalier::ranks
