#include "base/sockets/addresses.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>

#include <cstring>

#include "base/system/socket_calls.h"

namespace espalier::addresses_test {
namespace {

using ::testing::HasSubstr;

SocketAddress address(const std::string& text) {
  SocketAddress made;
  auto& v6 = reinterpret_cast<sockaddr_in6&>(made.storage);
  auto& v4 = reinterpret_cast<sockaddr_in&>(made.storage);
  if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    made.storage.ss_family = AF_INET6;
    made.length = sizeof v6;
  } else if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    made.storage.ss_family = AF_INET;
    made.length = sizeof v4;
  } else {
    ADD_FAILURE() << text;
  }
  return made;
}

TEST(Addresses, HostsAndPortsAreReadInBothFamilies) {
  const auto read = [](std::string_view text) {
    auto where = read_address(text, "peers");
    return where.ok() ? *where : HostAndPort{where.error().message, 0};
  };
  EXPECT_EQ(read("10.0.0.1:20000"), (HostAndPort{"10.0.0.1", 20000}));
  EXPECT_EQ(read("some-host.example:1"), (HostAndPort{"some-host.example", 1}));
  EXPECT_EQ(read("tcp://host:65535"), (HostAndPort{"host", 65535}));
  EXPECT_EQ(read("[fd00::1]:20000"), (HostAndPort{"fd00::1", 20000}));
  EXPECT_EQ(read("tcp://[::1]:20000"), (HostAndPort{"::1", 20000}));
}

TEST(Addresses, WhatIsNoAddressIsRefusedWithItsFlag) {
  for (const char* text :
       {"", ":", "host", "host:", ":1", "host:0", "host:65536", "host:-1", "host:+1", "host:1x", "host: 1",
        "host:99999999999", "fd00::1:20000", "[]:1", "[fd00::1]", "[fd00::1:1", "tcp://", "tcp://:1"}) {
    const auto read = read_address(text, "peers");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().kind, Error::Kind::bad_request);
    EXPECT_EQ(read.error().field, "peers");
    EXPECT_THAT(read.error().message, HasSubstr("--peers is \"" + std::string(text) + "\""));
  }
}

TEST(Addresses, AreDescribedAsTheyAreRead) {
  for (const HostAndPort& where :
       {HostAndPort{"10.0.0.1", 20000}, HostAndPort{"fd00::1", 1}, HostAndPort{"host", 65535}})
    EXPECT_EQ(read_address(describe(where), "peers").value(), where);
  EXPECT_EQ(describe({"fd00::1", 1}), "[fd00::1]:1");
  EXPECT_EQ(host_and_port(address("10.1.2.3")), (HostAndPort{"10.1.2.3", 0}));
}

TEST(Addresses, LocalOnesAreThoseNobodyHasOnTheInternet) {
  for (const char* text : {"127.0.0.1", "127.255.255.255", "10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255",
                           "192.168.0.1", "169.254.1.1", "100.64.0.1", "100.127.255.255", "::1", "fe80::1", "febf::1",
                           "fc00::1", "fdff:ffff::1", "::ffff:127.0.0.1", "::ffff:10.1.1.1", "::ffff:172.20.0.1"})
    EXPECT_TRUE(is_local(address(text))) << text;
  for (const char* text :
       {"0.0.0.0",        "8.8.8.8",          "9.255.255.255", "11.0.0.0",        "126.1.1.1",   "128.0.0.1",
        "172.15.255.255", "172.32.0.0",       "192.167.0.1",   "192.169.0.1",     "169.253.1.1", "169.255.1.1",
        "100.63.255.255", "100.128.0.0",      "224.0.0.1",     "255.255.255.255", "::",          "::2",
        "2001:db8::1",    "fec0::1",          "fe7f::1",       "fbff::1",         "fe00::1",     "ff02::1",
        "::ffff:8.8.8.8", "::ffff:128.0.0.1", "::127.0.0.1",   "64:ff9b::7f00:1"})
    EXPECT_FALSE(is_local(address(text))) << text;
}

TEST(Addresses, NamesAreLookedUpAndUnknownOnesNamed) {
  const auto here = look_up({"127.0.0.1", 77});
  ASSERT_TRUE(here.ok());
  ASSERT_EQ(here->size(), 1u) << "one, not one for each kind of socket";
  EXPECT_EQ(host_and_port(here->front()), (HostAndPort{"127.0.0.1", 77}));
  const auto nowhere = look_up({"no such host", 77});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().kind, Error::Kind::network);
  EXPECT_THAT(nowhere.error().message, HasSubstr("no such host"));
}

TEST(Addresses, APortInUseIsToldWithTheFlagThatChoosesAnother) {
  const auto first = listen_at({"127.0.0.1", 0}, {"a test", "test-port"});
  ASSERT_TRUE(first.ok()) << first.error().message;
  const auto port = port_of(first->get());
  EXPECT_GT(port, 0);
  const auto second = listen_at({"127.0.0.1", port}, {"a test", "test-port"});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, Error::Kind::cannot_bind);
  EXPECT_EQ(second.error().field, "test-port");
  EXPECT_THAT(second.error().message, HasSubstr("a test cannot listen at 127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(second.error().message, HasSubstr("--test-port"));
}

TEST(Addresses, AnAddressOfAnotherMachineMeansAnyOfThisOne) {
  const auto listening = listen_at({"192.0.2.1", 0}, {"a test", "test-port"});
  ASSERT_TRUE(listening.ok()) << listening.error().message;
  const auto here = look_up({"127.0.0.1", port_of(listening->get())});
  const UniqueFd caller = begin_to_connect(here->front());
  ASSERT_TRUE(caller);
  pollfd waited{caller.get(), POLLOUT, 0};
  ASSERT_EQ(::poll(&waited, 1, 20'000), 1);
  EXPECT_EQ(connect_error(caller.get()), 0);
}

TEST(Addresses, TheTwoEndsOfAConnectionKnowEachOther) {
  const UniqueFd listening = listen_at({"127.0.0.1", 0}, {"a test", "test-port"}).value();
  const UniqueFd caller = begin_to_connect(own_address(listening.get()));
  ASSERT_TRUE(caller);
  pollfd waited{listening.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&waited, 1, 20'000), 1);
  sockaddr_storage from{};
  socklen_t length = sizeof from;
  const UniqueFd called(accept_socket(listening.get(), reinterpret_cast<sockaddr*>(&from), &length));
  ASSERT_TRUE(called);
  EXPECT_EQ(host_and_port(own_address(caller.get())), host_and_port(peer_address(called.get())));
  EXPECT_EQ(host_and_port(peer_address(caller.get())), host_and_port(own_address(called.get())));
  EXPECT_FALSE(is_connected_to_itself(caller.get()));
  const auto beside = listen_beside(called.get(), {"a test", "test-port"});
  ASSERT_TRUE(beside.ok());
  EXPECT_EQ(host_and_port(own_address(beside->get())).host, "127.0.0.1");
  EXPECT_NE(port_of(beside->get()), port_of(listening.get()));
}

}  // namespace
}  // namespace espalier::addresses_test
