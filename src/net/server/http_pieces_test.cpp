// The small parts of the server that need no socket: headers, CORS, events, heads, gzip, pace, places.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "net/http/body_pace.h"
#include "net/http/cors.h"
#include "net/http/error_body.h"
#include "net/http/gzip.h"
#include "net/http/response_head.h"
#include "net/http/sse.h"
#include "net/server/server_state.h"
#include "testing/data.h"

namespace espalier::net {
namespace {

using namespace std::chrono_literals;

TEST(Headers, NamesIgnoreCaseAndListsAreTakenApart) {
  Headers headers{{"Accept", "a/b;q=1, text/HTML ;x"}, {"X", "1"}, {"accept", "last"}};
  EXPECT_EQ(headers.get("ACCEPT"), "a/b;q=1, text/HTML ;x");
  EXPECT_TRUE(headers.lists("accept", "text/html"));
  EXPECT_TRUE(headers.lists("accept", "last"));
  EXPECT_FALSE(headers.lists("accept", "html"));
  headers.set("Accept", "one");
  EXPECT_EQ(headers.size(), 2u);
  EXPECT_EQ(headers.get("missing"), "");
}

TEST(Cors, IsOffWithoutOriginsAndNeverMixesTheStarWithCredentials) {
  HttpRequest preflight;
  preflight.method = Method::options;
  preflight.headers = {{"Origin", "https://a.example"},
                       {"Access-Control-Request-Method", "POST"},
                       {"Access-Control-Request-Headers", "authorization"}};
  EXPECT_FALSE(Cors{}.preflight(preflight));
  EXPECT_FALSE(Cors({"https://b.example"}).preflight(preflight));
  Cors any({"*"}), listed({"https://a.example"});
  auto answer = any.preflight(preflight);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 204);
  EXPECT_EQ(answer->headers.get("Access-Control-Allow-Headers"), "authorization");
  Headers with_star, with_name, without;
  any.decorate("https://a.example", with_star);
  EXPECT_EQ(with_star.get("Access-Control-Allow-Origin"), "*");
  EXPECT_FALSE(with_star.has("Access-Control-Allow-Credentials"));
  listed.decorate("https://a.example", with_name);
  EXPECT_EQ(with_name.get("Access-Control-Allow-Origin"), "https://a.example");
  EXPECT_EQ(with_name.get("Access-Control-Allow-Credentials"), "true");
  listed.decorate("https://evil.example", without);
  EXPECT_FALSE(without.has("Access-Control-Allow-Origin"));
}

TEST(Sse, EventsAreDataLinesAndABlankLine) {
  EXPECT_EQ(sse_event("{}"), "data: {}\n\n");
  EXPECT_EQ(sse_event("x", "message_stop"), "event: message_stop\ndata: x\n\n");
  EXPECT_EQ(sse_event("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(sse_event(""), "data: \n\n");
  EXPECT_EQ(sse_event("x", "a\r\nb"), "event: ab\ndata: x\n\n");
}

// Reads events as the HTML standard says, to see that any text survives the way.
std::string joined_data(std::string_view stream) {
  std::string data;
  bool first = true;
  while (!stream.empty()) {
    auto line = stream.substr(0, stream.find('\n'));
    stream.remove_prefix(line.size() + 1);
    if (line.empty()) break;
    EXPECT_TRUE(line.starts_with("data: "));
    if (!std::exchange(first, false)) data += '\n';
    data += line.substr(6);
  }
  EXPECT_TRUE(stream.empty());
  return data;
}

TEST(Sse, AnyTextSurvivesButTheKindOfItsLineBreaks) {
  std::mt19937_64 random(testing::seed());
  for (int i = 0; i < 2000; ++i) {
    std::string text, expected;
    for (std::size_t n = random() % 20; n > 0; --n) text += "ab: \r\n"[random() % 6];
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n') continue;
      expected += text[at] == '\r' ? '\n' : text[at];
    }
    EXPECT_EQ(joined_data(sse_event(text)), expected) << "seed " << testing::seed() << " step " << i;
  }
}

TEST(ResponseHead, WhatWouldBreakTheFramingIsLeftOut) {
  Headers headers{{"X-Good", "1"},           {"X-Split", "a\r\nEvil: 1"},      {"bad name", "1"},
                  {"Content-Length", "999"}, {"transfer-encoding", "chunked"}, {"Connection", "keep-alive"},
                  {"Date", "never"}};
  Framing framing{5, false, false, false, "DATE", "id-1"};
  EXPECT_EQ(response_head(200, headers, framing),
            "HTTP/1.1 200 OK\r\nX-Good: 1\r\nContent-Length: 5\r\nConnection: close\r\nDate: DATE\r\n"
            "x-request-id: id-1\r\n\r\n");
  EXPECT_EQ(response_head(99, {}, framing).substr(0, 12), "HTTP/1.1 500");
  EXPECT_EQ(response_head(204, {}, framing).find("Content-Length"), std::string::npos);
  EXPECT_EQ(chunk("hello, world, 16"), "10\r\nhello, world, 16\r\n");
  DateText date;
  EXPECT_EQ(date.now().size(), std::string_view("Sun, 06 Nov 1994 08:49:37 GMT").size());
}

TEST(ErrorBody, HasOpenAisShapeAndSurvivesBytesThatAreNoText) {
  auto response = openai_error({429, "queue \xff is full", "queue_full", "", 3});
  auto body = nlohmann::json::parse(response.body);
  EXPECT_EQ(body["error"]["type"], "rate_limit_error");
  EXPECT_EQ(body["error"]["code"], "queue_full");
  EXPECT_TRUE(body["error"]["param"].is_null());
  EXPECT_EQ(response.headers.get("Retry-After"), "3");
  auto from_library = http_error(bad_request("no", "max_tokens"));
  EXPECT_EQ(from_library.status, 400);
  EXPECT_EQ(from_library.param, "max_tokens");
}

TEST(Gzip, AnythingComesBackWhateverThePieces) {
  if (!gzip_available()) GTEST_SKIP() << "built without zlib";
  std::mt19937_64 random(testing::seed());
  for (int i = 0; i < 200; ++i) {
    std::string text(1000 + random() % 100'000, 'x');
    for (std::size_t at = 0; at < text.size(); at += 1 + random() % 7) text[at] = static_cast<char>('a' + random() % 4);
    auto packed = gzip(text);
    ASSERT_TRUE(packed);
    GzipReader reader;
    std::string out;
    auto state = GzipReader::State::wants_input;
    for (std::size_t at = 0; at < packed->size();) {
      std::size_t n = std::min<std::size_t>(1 + random() % 5000, packed->size() - at);
      std::string_view piece(packed->data() + at, n);
      at += n;
      do {
        std::size_t slice = 1 + random() % 10'000, before = out.size();
        state = reader.read(piece, out, slice);
        ASSERT_LE(out.size() - before, slice);
      } while (state == GzipReader::State::has_more);
    }
    EXPECT_EQ(state, GzipReader::State::finished) << "seed " << testing::seed();
    EXPECT_EQ(out, text);
    std::string_view more = "x";
    EXPECT_EQ(reader.read(more, out, 10), GzipReader::State::broken);
  }
  GzipReader reader;
  std::string_view junk = "this is not gzip at all";
  std::string out;
  EXPECT_EQ(reader.read(junk, out, 100), GzipReader::State::broken);
}

TEST(Gzip, ClientsSayWhetherTheyTakeIt) {
  for (auto yes : {"gzip", "deflate, gzip", "GZIP;q=0.5", "br , gzip ; q=1"}) EXPECT_TRUE(accepts_gzip(yes)) << yes;
  for (auto no : {"", "br", "gzip;q=0", "gzip; q=0.000", "xgzip", "identity"}) EXPECT_FALSE(accepts_gzip(no)) << no;
}

TEST(BodyPace, PausesAndTricklesAreTooSlow) {
  BodyPace::TimePoint t{};
  BodyPace pace(30s, 1024, t);
  EXPECT_FALSE(pace.too_slow(1, t + 29s));
  EXPECT_FALSE(pace.too_slow(40'000, t + 30s)) << "fast enough on average";
  EXPECT_EQ(pace.next_look(), t + 60s);
  EXPECT_FALSE(pace.too_slow(40'001, t + 59s));
  EXPECT_TRUE(pace.too_slow(40'002, t + 60s)) << "1 byte/s in the second window";
  BodyPace silent(30s, 0, t);
  EXPECT_FALSE(silent.too_slow(0, t + 30s - 1ms));
  EXPECT_TRUE(silent.too_slow(0, t + 30s));
  BodyPace exact(30s, 1024, t);
  EXPECT_FALSE(exact.too_slow(30 * 1024 - 1, t + 29s));
  EXPECT_FALSE(exact.too_slow(30 * 1024, t + 30s));
  BodyPace below(30s, 1024, t);
  EXPECT_TRUE(below.too_slow(30 * 1024 - 1, t + 30s));
}

TEST(ConnectionLimits, PlacesComeBackWhenTheirHolderGoes) {
  auto limits = std::make_shared<ConnectionLimits>(3, 2);
  using Verdict = ConnectionLimits::Verdict;
  std::optional<ConnectionLimits::Place> a, b, c, d;
  EXPECT_EQ(limits->admit("1", a), Verdict::admitted);
  EXPECT_EQ(limits->admit("1", b), Verdict::admitted);
  EXPECT_EQ(limits->admit("1", c), Verdict::address_reached);
  EXPECT_EQ(limits->admit("2", c), Verdict::admitted);
  EXPECT_EQ(limits->admit("3", d), Verdict::total_reached);
  std::optional<ConnectionLimits::Place> moved = std::move(a);
  a = std::nullopt;
  EXPECT_EQ(limits->open(), 3u) << "a moved-from place holds nothing";
  moved.reset();
  EXPECT_EQ(limits->admit("1", d), Verdict::admitted);
  b.reset(), c.reset(), d.reset();
  EXPECT_EQ(limits->open(), 0u);
}

TEST(BodyCharge, ManyBodiesTogetherAreBounded) {
  ServerOptions options;
  options.body_total_bytes = 100;
  ServerState state(options, {}, 1);
  BodyCharge one(state), two(state);
  EXPECT_TRUE(one.raise_to(60));
  EXPECT_TRUE(two.raise_to(40));
  EXPECT_FALSE(two.raise_to(41));
  one.release();
  EXPECT_TRUE(two.raise_to(42));
  EXPECT_EQ(state.stats().body_bytes_held, 42u);
}

}  // namespace
}  // namespace espalier::net
