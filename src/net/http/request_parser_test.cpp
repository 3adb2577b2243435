#include "net/http/request_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "testing/data.h"

namespace espalier::net {
namespace {

struct Outcome {
  int status = 0;  // of the refusal; 0: none
  bool done = false;
  HttpRequest request;
  std::string body;
  bool keep_alive = false;
  std::size_t left = 0;  // bytes not taken
};

// Feeds `bytes` as a connection does: in pieces, unread rest first. `piece(n)` says how many of n bytes come next.
template <class Piece>
Outcome parse(std::string_view bytes, Piece piece, ParserLimits limits = {}) {
  RequestParser parser(limits);
  Outcome outcome;
  std::string pending;
  while (!bytes.empty() && outcome.status == 0 && !outcome.done) {
    std::size_t n = piece(bytes.size());
    pending.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
    std::string_view input = pending;
    std::optional<HttpError> refusal;
    if (!parser.head_done()) refusal = parser.read_head(input);
    if (!refusal && parser.head_done()) refusal = parser.read_body(input);
    pending.erase(0, pending.size() - input.size());
    if (refusal) outcome.status = refusal->status;
    outcome.done = outcome.status == 0 && parser.head_done() && parser.done();
  }
  outcome.left = pending.size() + bytes.size();
  if (outcome.done) {
    outcome.keep_alive = parser.keep_alive();
    outcome.request = std::move(parser.request());
    outcome.body = std::move(parser.body());
  }
  return outcome;
}

Outcome parse(std::string_view bytes, ParserLimits limits = {}) {
  return parse(bytes, [](std::size_t n) { return n; }, limits);
}
Outcome parse_by_byte(std::string_view bytes, ParserLimits limits = {}) {
  return parse(bytes, [](std::size_t) { return std::size_t{1}; }, limits);
}

std::string get(std::string_view fields) {
  return fmt::format("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", fields);
}
std::string chunked(std::string_view body) {
  return fmt::format("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}", body);
}

// Whatever the pieces, the verdict is the same.
int status_of(std::string_view bytes, ParserLimits limits = {}) {
  auto whole = parse(bytes, limits);
  auto slow = parse_by_byte(bytes, limits);
  EXPECT_EQ(whole.status, slow.status) << bytes.substr(0, 200);
  EXPECT_EQ(whole.done, slow.done) << bytes.substr(0, 200);
  return whole.status != 0 ? whole.status : whole.done ? 200 : 0;
}

TEST(RequestParser, AWholeRequestComesOutAsItWasSent) {
  std::string bytes =
      "POST /v1/x%20y?a=b HTTP/1.1\r\nHost: localhost:1\r\nX-One: 1\r\nx-one:  2 \t\r\nEmpty:\r\n"
      "Content-Length: 5\r\n\r\nhelloNEXT";
  for (auto& outcome : {parse(bytes), parse_by_byte(bytes)}) {
    ASSERT_TRUE(outcome.done);
    EXPECT_EQ(outcome.request.method, Method::post);
    EXPECT_EQ(outcome.request.path, "/v1/x y");
    EXPECT_EQ(*outcome.request.query_value("a"), "b");
    EXPECT_EQ(outcome.request.headers.get("X-ONE"), "1");
    EXPECT_EQ(outcome.request.headers.size(), 5u);
    EXPECT_EQ(outcome.body, "hello");
    EXPECT_EQ(outcome.left, 4u);
    EXPECT_TRUE(outcome.keep_alive);
  }
}

TEST(RequestParser, ChunkedBodiesAreJoinedAndTrailersDropped) {
  auto bytes = chunked("5;x=\"y\"\r\nhello\r\n0006\r\n world\r\n0\r\nX-Trailer: 1\r\n\r\nNEXT");
  for (auto& outcome : {parse(bytes), parse_by_byte(bytes)}) {
    ASSERT_TRUE(outcome.done);
    EXPECT_EQ(outcome.body, "hello world");
    EXPECT_FALSE(outcome.request.headers.has("X-Trailer"));
    EXPECT_EQ(outcome.left, 4u);
  }
}

TEST(RequestParser, KeepAliveFollowsVersionAndConnectionField) {
  EXPECT_TRUE(parse(get("")).keep_alive);
  EXPECT_FALSE(parse(get("Connection: close\r\n")).keep_alive);
  EXPECT_FALSE(parse(get("Connection: x, Close\r\n")).keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").keep_alive);
}

TEST(RequestParser, AmbiguousFramingIsRefused) {
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n";
  for (const std::string& bad : {
           post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           post + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
           post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
           post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
           post + "Content-Length: 1, 1\r\n\r\nx",
           post + "Content-Length: +1\r\n\r\nx",
           post + "Content-Length: -1\r\n\r\nx",
           post + "Content-Length: 0x1\r\n\r\nx",
           post + "Content-Length: 1 1\r\n\r\nx",
           post + "Content-Length: 1e0\r\n\r\nx",
           post + "Content-Length:\r\n\r\nx",
           post + "Content-Length: 99999999999999999999999\r\n\r\nx",
           post + "Transfer-Encoding: gzip\r\n\r\n",
           post + "Transfer-Encoding: gzip, chunked\r\n\r\n",
           post + "Transfer-Encoding: chunked, chunked\r\n\r\n",
           post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
           post + "Transfer-Encoding: identity\r\n\r\n",
           post + "Transfer-Encoding: xchunked\r\n\r\n",
           post + "Transfer-Encoding:\r\n\r\n",
           post + "Transfer-Encoding: \"chunked\"\r\n\r\n",
           std::string("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
       }) {
    EXPECT_EQ(status_of(bad), 400) << bad;
  }
}

TEST(RequestParser, MalformedHeadsAreRefused) {
  for (const std::string& bad : {
           std::string("GET / HTTP/1.1\r\n\r\n"),               // no Host
           get("Host: b\r\n"),                                  // two
           std::string("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),  // not a host
           get("X : 1\r\n"),
           get(" X: 1\r\n"),
           get("X: 1\r\n folded\r\n"),  // spaces where none may be
           get("X: a\rb\r\n"),
           get("X: a\nb\r\n"),
           get("X: 1\n"),
           get("\rX: 1\r\n"),
           get(std::string("X: a\0b\r\n", 8)),
           get("X: a\x01\r\n"),
           get("X: a\x7f\r\n"),
           get("X\r\n"),
           get(": 1\r\n"),
           get("X@: 1\r\n"),
           get("\xc3\xa9: 1\r\n"),
           std::string("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string("GET /\r\nHost: a\r\n\r\n"),
           std::string("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
           std::string("GET / http/1.1\r\nHost: a\r\n\r\n"),
           std::string("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string("G=T / HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string("GET / HT\r\n\r\n"),
           std::string("GET x HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
           std::string("\n"),
           std::string("\r\r"),
       }) {
    EXPECT_EQ(status_of(bad), 400) << bad;
  }
}

TEST(RequestParser, UnknownVersionsAndExpectationsHaveTheirOwnStatus) {
  for (std::string_view version : {"HTTP/2.0", "HTTP/1.2", "HTTP/0.9", "HTTP/3.0", "HTTP/1.10"}) {
    int status = status_of(fmt::format("GET / {}\r\nHost: a\r\n\r\n", version));
    EXPECT_TRUE(status == 505 || status == 400) << version;
  }
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(status_of(get("Expect: a miracle\r\n")), 417);
  RequestParser parser{ParserLimits{}};
  std::string bytes = get("Expect: 100-Continue\r\n");
  std::string_view input = bytes;
  EXPECT_FALSE(parser.read_head(input));
  EXPECT_TRUE(parser.expects_continue());
}

TEST(RequestParser, EmptyLinesBeforeARequestAreForgiven) {
  EXPECT_EQ(status_of("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
  EXPECT_EQ(status_of("\r\n\r\nGET / HTTP/1.0\r\n\r\n"), 200);
}

TEST(RequestParser, TheRequestLineLimitIsExact) {
  ParserLimits limits;
  auto line = [&](std::size_t length) {
    std::string head = "GET /", tail = " HTTP/1.1";
    return head + std::string(length - head.size() - tail.size(), 'a') + tail + "\r\nHost: a\r\n\r\n";
  };
  EXPECT_EQ(status_of(line(limits.request_line_bytes - 1)), 200);
  EXPECT_EQ(status_of(line(limits.request_line_bytes)), 200);
  EXPECT_EQ(status_of(line(limits.request_line_bytes + 1)), 414);
  EXPECT_EQ(status_of(std::string(limits.request_line_bytes + 1, 'A')), 414);  // without waiting for its end
}

TEST(RequestParser, TheHeaderBlockLimitIsExact) {
  ParserLimits limits;
  auto block = [&](std::size_t bytes) {
    std::string fields = "Host: a\r\n";
    fields += "X: " + std::string(bytes - fields.size() - 5, 'v') + "\r\n";
    return "GET / HTTP/1.1\r\n" + fields + "\r\n";
  };
  EXPECT_EQ(status_of(block(limits.header_bytes - 1)), 200);
  EXPECT_EQ(status_of(block(limits.header_bytes)), 200);
  EXPECT_EQ(status_of(block(limits.header_bytes + 1)), 431);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nX: " + std::string(limits.header_bytes, 'v')), 431);
}

TEST(RequestParser, TheHeaderCountLimitIsExact) {
  auto with = [](std::size_t count) {
    std::string fields;
    for (std::size_t i = 1; i < count; ++i) fields += "X: 1\r\n";
    return get(fields);
  };
  EXPECT_EQ(status_of(with(99)), 200);
  EXPECT_EQ(status_of(with(100)), 200);
  EXPECT_EQ(status_of(with(101)), 431);
}

TEST(RequestParser, TheBodyLimitIsExactAndKnownBeforeTheBody) {
  ParserLimits limits;
  limits.body_bytes = 1000;
  auto sized = [](std::size_t n) {
    return fmt::format("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{}", n, std::string(n, 'b'));
  };
  EXPECT_EQ(status_of(sized(999), limits), 200);
  EXPECT_EQ(status_of(sized(1000), limits), 200);
  EXPECT_EQ(status_of(sized(1001), limits), 413);
  EXPECT_EQ(status_of("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", limits), 413);
  auto in_two = [](std::size_t n) {
    return chunked(fmt::format("2\r\nbb\r\n{:x}\r\n{}\r\n0\r\n\r\n", n - 2, std::string(n - 2, 'b')));
  };
  EXPECT_EQ(status_of(in_two(999), limits), 200);
  EXPECT_EQ(status_of(in_two(1000), limits), 200);
  EXPECT_EQ(status_of(in_two(1001), limits), 413);
  EXPECT_EQ(status_of(chunked("ffffffffffffffff\r\n"), limits), 413);
  EXPECT_EQ(status_of(chunked("2\r\nbb\r\nffffffffffffffff\r\n"), limits), 413);
}

TEST(RequestParser, ChunkLineExtensionAndTrailerLimitsAreExact) {
  auto digits = [](std::size_t n) { return chunked(std::string(n - 1, '0') + "1\r\nx\r\n0\r\n\r\n"); };
  EXPECT_EQ(status_of(digits(255)), 200);
  EXPECT_EQ(status_of(digits(256)), 200);
  EXPECT_EQ(status_of(digits(257)), 400);
  auto second_digits = [](std::size_t n) { return chunked("1\r\nx\r\n" + std::string(n, '0') + "\r\n\r\n"); };
  EXPECT_EQ(status_of(second_digits(256)), 200);
  EXPECT_EQ(status_of(second_digits(257)), 400);
  auto extension = [](std::size_t n) { return chunked("1;" + std::string(n - 1, 'e') + "\r\nx\r\n0\r\n\r\n"); };
  EXPECT_EQ(status_of(extension(255)), 200);
  EXPECT_EQ(status_of(extension(256)), 200);
  EXPECT_EQ(status_of(extension(257)), 400);
  EXPECT_EQ(status_of(chunked("1;" + std::string(100'000, 'e'))), 400);
  auto trailer = [](std::size_t n) { return chunked("0\r\nX: " + std::string(n - 5, 't') + "\r\n\r\n"); };
  EXPECT_EQ(status_of(trailer(16 * 1024 - 1)), 200);
  EXPECT_EQ(status_of(trailer(16 * 1024)), 200);
  EXPECT_EQ(status_of(trailer(16 * 1024 + 1)), 400);
  EXPECT_EQ(status_of(chunked("0\r\nX: " + std::string(100'000, 't'))), 400);
  std::string many = "0\r\n";
  for (int i = 0; i < 101; ++i) many += "X: 1\r\n";
  EXPECT_EQ(status_of(chunked(many + "\r\n")), 400);
}

TEST(RequestParser, MalformedChunksAreRefused) {
  for (std::string_view bad : {"x\r\n",
                               "\r\n\r\n",
                               ";a\r\n",
                               "-1\r\nx\r\n0\r\n\r\n",
                               "+1\r\nx\r\n0\r\n\r\n",
                               "0x1\r\nx\r\n0\r\n\r\n",
                               " 1\r\nx\r\n0\r\n\r\n",
                               "1 \r\nx\r\n0\r\n\r\n",
                               "1\nx\n0\n\n\r\n",
                               "1\r\nxx\r\n0\r\n\r\n",
                               "1\r\nxy0\r\n\r\n",
                               "1\r\nx\n0\r\n\r\n",
                               "1\rx\r\n",
                               "1;a=\"\x01\"\r\nx\r\n0\r\n\r\n",
                               "1;a\nb\r\nx\r\n0\r\n\r\n",
                               "0\r\nbad trailer\r\n\r\n",
                               "0\r\nX : a\r\n\r\n",
                               "0\r\n X: a\r\n\r\n",
                               "0\r\n: a\r\n\r\n",
                               "0\r\nX: a\n\r\n",
                               "0\r\nX: a\x01\r\n\r\n",
                               "0\r\nX: a\rb\r\n\r\n",
                               "0\r\n\rx"}) {
    EXPECT_EQ(status_of(chunked(bad)), 400) << bad;
  }
}

TEST(RequestParser, ChunksAsAnyClientWritesThemAreAccepted) {
  for (std::string_view good :
       {"0\r\n\r\n", "1\r\nx\r\n0\r\n\r\n", "a\r\n0123456789\r\n0\r\n\r\n", "A;n=\"q;r\"\r\n0123456789\r\n00\r\n\r\n",
        "1;a=b;c\r\nx\r\n0;last\r\nContent-Length: 5\r\nEmpty:\r\n\r\n"}) {
    EXPECT_EQ(status_of(chunked(good)), 200) << good;
  }
}

// Random pieces of requests, joined at random, cut into random pieces: cutting must never change the verdict.
TEST(RequestParser, HowTheBytesAreCutNeverMatters) {
  std::mt19937_64 random(testing::seed());
  const std::vector<std::string> parts = {"GET / HTTP/1.1\r\n",
                                          "POST /a?b=c HTTP/1.1\r\n",
                                          "Host: a\r\n",
                                          "Content-Length: 7\r\n",
                                          "Content-Length: 0\r\n",
                                          "Transfer-Encoding: chunked\r\n",
                                          "X: y\r\n",
                                          "\r\n",
                                          "\r",
                                          "\n",
                                          " ",
                                          "0\r\n\r\n",
                                          "3\r\nabc\r\n",
                                          "a;b=\"c\"\r\n",
                                          "0123456789",
                                          "\r\n0\r\n",
                                          "Connection: close\r\n",
                                          "\t",
                                          ":",
                                          "Expect: 100-continue\r\n",
                                          "HTTP/1.0"};
  ParserLimits limits;
  limits.header_bytes = 100;
  limits.request_line_bytes = 40;
  limits.body_bytes = 20;
  limits.chunk_line_bytes = limits.chunk_extension_bytes = limits.trailer_bytes = 16;
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = random() % 4 != 0 ? "POST / HTTP/1.1\r\nHost: a\r\n" : "";
    if (random() % 2 != 0)
      bytes += random() % 2 != 0 ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: 7\r\n\r\n";
    for (std::size_t n = random() % 8; n > 0; --n) bytes += parts[random() % parts.size()];
    auto whole = parse(bytes, limits);
    auto cut = parse(bytes, [&](std::size_t n) { return 1 + random() % n; }, limits);
    auto slow = parse_by_byte(bytes, limits);
    for (const auto* other : {&cut, &slow}) {
      ASSERT_EQ(whole.status, other->status) << "seed " << testing::seed() << " step " << i << "\n" << bytes;
      ASSERT_EQ(whole.done, other->done) << "seed " << testing::seed() << " step " << i << "\n" << bytes;
      ASSERT_EQ(whole.body, other->body);
      ASSERT_TRUE(!whole.done || whole.left == other->left);
    }
    accepted += whole.done;
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace espalier::net
