#include "net/client/url.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "net/client/address_policy.h"

namespace espalier::net {
namespace {

TEST(Url, PartsAreThoseThatDecideWhereARequestGoes) {
  auto url = parse_url("HTTPS://Hub.Example:8443/a/b%20c?x=1&y#part");
  ASSERT_TRUE(url.ok()) << url.error().message;
  EXPECT_EQ(url->scheme, "https");
  EXPECT_EQ(url->host, "hub.example");
  EXPECT_EQ(url->port, 8443);
  EXPECT_EQ(url->origin(), "https://hub.example:8443");
  EXPECT_EQ(url->printable(), "https://hub.example:8443/a/b%20c");
  EXPECT_EQ(url->full(), "https://hub.example:8443/a/b%20c?x=1&y");
  EXPECT_EQ(parse_url("http://h:80/")->origin(), "http://h");
  EXPECT_EQ(parse_url("http://[::1]:8080")->full(), "http://[::1]:8080/");
}

TEST(Url, ARedirectIsReadAgainstTheAnswersOwnUrl) {
  const Url base = *parse_url("https://hub.example/org/name?old=1");
  const std::pair<const char*, const char*> cases[] = {
      {"/abs?x=1", "https://hub.example/abs?x=1"},
      {"sibling", "https://hub.example/org/sibling"},
      {"//cdn.example/f", "https://cdn.example/f"},
      {"http://plain.example:81/f", "http://plain.example:81/f"},
  };
  for (auto [reference, expected] : cases) {
    auto url = resolve_url(base, reference);
    ASSERT_TRUE(url.ok()) << reference;
    EXPECT_EQ(url->full(), expected);
  }
  EXPECT_FALSE(resolve_url(base, "file:///etc/passwd").ok());
  EXPECT_FALSE(resolve_url(base, "//user:pw@other/").ok());
}

TEST(Url, PercentEncodingKeepsOnlyWhatIsPlain) {
  EXPECT_EQ(percent_encode("refs/pr/1 ü?#", "/"), "refs/pr/1%20%C3%BC%3F%23");
  EXPECT_EQ(percent_encode("a/b"), "a%2Fb");
}

bool is_public(const std::string& text) {
  sockaddr_in6 v6{};
  sockaddr_in v4{};
  if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    return is_public_address(reinterpret_cast<sockaddr*>(&v6), sizeof v6);
  }
  v4.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, text.c_str(), &v4.sin_addr), 1) << text;
  return is_public_address(reinterpret_cast<sockaddr*>(&v4), sizeof v4);
}

TEST(AddressPolicy, OnlyThePublicInternetIsPublic) {
  for (const char* yes : {"8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255",
                          "172.32.0.0", "192.167.1.1", "223.255.255.255", "2606:4700::1111", "::ffff:8.8.8.8"})
    EXPECT_TRUE(is_public(yes)) << yes;
  for (const char* no : {"0.0.0.0",
                         "10.0.0.1",
                         "100.64.0.1",
                         "127.0.0.1",
                         "127.255.255.255",
                         "169.254.169.254",
                         "172.16.0.1",
                         "172.31.255.255",
                         "192.168.0.1",
                         "198.18.0.1",
                         "224.0.0.1",
                         "255.255.255.255",
                         "::",
                         "::1",
                         "fe80::1",
                         "fc00::1",
                         "fd12::1",
                         "ff02::1",
                         "::ffff:127.0.0.1",
                         "::ffff:10.0.0.1",
                         "64:ff9b::7f00:1",
                         "2002:7f00:1::",
                         "2001:db8::1",
                         "::127.0.0.1"})
    EXPECT_FALSE(is_public(no)) << no;
}

}  // namespace
}  // namespace espalier::net
