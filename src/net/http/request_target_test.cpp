#include "net/http/request_target.h"

#include <gtest/gtest.h>

#include <random>

#include "net/client/url.h"  // percent_encode
#include "testing/data.h"

namespace espalier::net {
namespace {

std::string path_of(std::string_view target) {
  auto parsed = parse_request_target(target, Method::get);
  return parsed.ok() ? parsed->path : "error: " + parsed.error().message;
}

TEST(RequestTarget, PathsAreDecodedAndNormalised) {
  EXPECT_EQ(path_of("/"), "/");
  EXPECT_EQ(path_of("/v1/models"), "/v1/models");
  EXPECT_EQ(path_of("/v1/models/"), "/v1/models");
  EXPECT_EQ(path_of("//v1/./models//x"), "/v1/models/x");
  EXPECT_EQ(path_of("/a/b/../c"), "/a/c");
  EXPECT_EQ(path_of("/../../etc/passwd"), "/etc/passwd");
  EXPECT_EQ(path_of("/a/%2e%2E/b"), "/b");
  EXPECT_EQ(path_of("/caf%C3%A9?x"), "/café");
  EXPECT_EQ(path_of("/a%2Fb"), "/a/b");
}

TEST(RequestTarget, AnEncodedSlashStaysInsideItsSegment) {
  auto parsed = parse_request_target("/v1/models/org%2Fname%2F..", Method::get);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->segments, (std::vector<std::string>{"v1", "models", "org/name/.."}));
}

TEST(RequestTarget, QueriesAreDecodedInOrder) {
  auto parsed = parse_request_target("/x?a=1&b=%26+%3D&a=2&flag&=empty&&", Method::get);
  ASSERT_TRUE(parsed.ok());
  std::string all;
  for (const auto& [name, value] : parsed->query) all += "[" + name + "|" + value + "]";
  EXPECT_EQ(all, "[a|1][b|& =][a|2][flag|][|empty]");
}

TEST(RequestTarget, AbsoluteAndAsteriskFormsAreUnderstood) {
  EXPECT_EQ(path_of("http://host:80/v1/x?y"), "/v1/x");
  EXPECT_EQ(path_of("HTTPS://[::1]:80?y"), "/");
  EXPECT_EQ(parse_request_target("*", Method::options)->path, "*");
}

TEST(RequestTarget, WhatIsBrokenIsRefused) {
  for (std::string_view bad : {"", "*", "v1/models", "ftp://host/", "http:///x", "http://a b/", "/%", "/%1", "/%g0",
                               "/a%00b", "/a%0ab", "/a%7f", "/x?%zz", "/x?a=%0", "/x?a=%00", "/x#part", "host:80"}) {
    auto parsed = parse_request_target(bad, Method::get);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.error().kind, Error::Kind::bad_request) << bad;
    EXPECT_FALSE(parsed.error().message.empty());
  }
}

TEST(RequestTarget, DecodingUndoesEncodingOfAnyBytes) {
  std::mt19937_64 random(testing::seed());
  for (int i = 0; i < 2000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    EXPECT_EQ(percent_decode(percent_encode(bytes)), bytes) << "seed " << testing::seed() << " step " << i;
  }
}

TEST(RequestTarget, HostsAreNamesAddressesAndPorts) {
  for (std::string_view good :
       {"", "localhost", "localhost:30000", "127.0.0.1", "[::1]", "[fe80::1]:80", "a-b.example:"}) {
    EXPECT_TRUE(valid_host(good)) << good;
  }
  for (std::string_view bad :
       {"a b", "a/b", "a@b", "a:b", "a:123456", "[::1", "::1]", "a\"b", "a<b", "[x]y", "a:1:2"}) {
    EXPECT_FALSE(valid_host(bad)) << bad;
  }
}

}  // namespace
}  // namespace espalier::net
