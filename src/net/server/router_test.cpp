#include "net/server/router.h"

#include <gtest/gtest.h>

#include <random>

#include "net/http/request_target.h"
#include "net/server/exchange.h"
#include "testing/data.h"

namespace espalier::net {
namespace {

HttpRequest request(std::string_view method, std::string_view target) {
  HttpRequest made;
  made.method_name = std::string(method);
  made.method = method_from(method);
  auto parsed = parse_request_target(target, made.method);
  EXPECT_TRUE(parsed.ok()) << target;
  made.path = parsed->path;
  made.segments = parsed->segments;
  return made;
}

// Which route answers, and with which values; or the status of the refusal and its Allow.
std::string routed(const Router& router, std::string_view method, std::string_view target) {
  auto exchange = std::make_shared<Exchange>(Exchange::Settings{}, [] {});
  auto refusal = router.refuse(request(method, target));
  router.dispatch(request(method, target), Responder(exchange));
  ExchangeOutput output;
  EXPECT_TRUE(exchange->take(output) && output.response);
  if (refusal) {
    EXPECT_EQ(output.response->status, refusal->status);
    return std::to_string(refusal->status) + " " + std::string(refusal->headers.get("Allow"));
  }
  return output.response->body;
}

class RouterTest : public ::testing::Test {
 protected:
  void add(Method method, std::string_view pattern) {
    auto added = router.add(method, pattern, [](HttpRequest r, Responder responder) {
      std::string text(r.route);
      for (const auto& [name, value] : r.path_values) text += " " + name + "=" + value;
      responder.respond(HttpResponse::text(200, text));
    });
    ASSERT_TRUE(added.ok()) << added.error().message;
  }
  Router router;
};

TEST_F(RouterTest, FixedAndNamedSegmentsAreFound) {
  add(Method::get, "/");
  add(Method::get, "/v1/models");
  add(Method::get, "/v1/models/{id}");
  EXPECT_EQ(routed(router, "GET", "/"), "/");
  EXPECT_EQ(routed(router, "GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(routed(router, "GET", "/v1/models/"), "/v1/models");
  EXPECT_EQ(routed(router, "GET", "/v1/models/a"), "/v1/models/{id} id=a");
}

TEST_F(RouterTest, AnIdMayHoldSlashesRawOrEncoded) {
  add(Method::get, "/v1/models/{id}");
  add(Method::post, "/v1/responses/{id}/cancel");
  add(Method::get, "/v1/responses/{id}");
  EXPECT_EQ(routed(router, "GET", "/v1/models/org%2Fname"), "/v1/models/{id} id=org/name");
  EXPECT_EQ(routed(router, "GET", "/v1/models/org/name/x"), "/v1/models/{id} id=org/name/x");
  EXPECT_EQ(routed(router, "POST", "/v1/responses/a%2Fb/cancel"), "/v1/responses/{id}/cancel id=a/b");
  EXPECT_EQ(routed(router, "GET", "/v1/responses/a"), "/v1/responses/{id} id=a");
}

TEST_F(RouterTest, FixedWordsBeatNamesWhereTheyServeTheMethod) {
  add(Method::get, "/m/{id}");
  add(Method::post, "/m/load");
  add(Method::get, "/m/all");
  EXPECT_EQ(routed(router, "GET", "/m/all"), "/m/all");
  EXPECT_EQ(routed(router, "POST", "/m/load"), "/m/load");
  EXPECT_EQ(routed(router, "GET", "/m/load"), "/m/{id} id=load");
}

TEST_F(RouterTest, UnknownPathsAre404AndWrongMethods405WithAllow) {
  add(Method::get, "/a");
  add(Method::post, "/a");
  EXPECT_EQ(routed(router, "GET", "/b"), "404 ");
  EXPECT_EQ(routed(router, "GET", "/a/b"), "404 ");
  EXPECT_EQ(routed(router, "DELETE", "/a"), "405 OPTIONS, GET, HEAD, POST");
  EXPECT_EQ(routed(router, "BREW", "/a"), "405 OPTIONS, GET, HEAD, POST");
  EXPECT_EQ(routed(router, "OPTIONS", "/a"), "204 OPTIONS, GET, HEAD, POST");
  EXPECT_EQ(routed(router, "OPTIONS", "*"), "204 OPTIONS");
  EXPECT_EQ(routed(router, "HEAD", "/a"), "/a");
}

TEST_F(RouterTest, ThePrefixStandsBeforeEveryRoute) {
  router = Router("/llm/");
  add(Method::get, "/v1/models");
  EXPECT_EQ(routed(router, "GET", "/llm/v1/models"), "/v1/models");
  EXPECT_EQ(routed(router, "GET", "/v1/models"), "404 ");
}

TEST_F(RouterTest, MalformedAndRepeatedPatternsAreRefused) {
  auto handler = [](HttpRequest, Responder) {};
  EXPECT_FALSE(router.add(Method::get, "a", handler).ok());
  EXPECT_FALSE(router.add(Method::get, "", handler).ok());
  EXPECT_FALSE(router.add(Method::get, "/a{b}", handler).ok());
  EXPECT_FALSE(router.add(Method::get, "/{}", handler).ok());
  EXPECT_FALSE(router.add(Method::other, "/a", handler).ok());
  EXPECT_FALSE(router.add(Method::get, "/a", {}).ok());
  EXPECT_TRUE(router.add(Method::get, "/a", handler).ok());
  EXPECT_TRUE(router.add(Method::post, "/a", handler).ok());
  EXPECT_FALSE(router.add(Method::get, "/a", handler).ok());
}

TEST_F(RouterTest, EveryPathGoesWhereTheSimpleModelSays) {
  const std::vector<std::string> words = {"a", "b", "{x}"};
  std::vector<std::vector<std::string>> patterns;
  for (const auto& one : words) {
    patterns.push_back({one});
    for (const auto& two : words) patterns.push_back({one, two});
  }
  for (const auto& p : patterns) add(Method::get, "/" + p[0] + (p.size() > 1 ? "/" + p[1] : ""));
  std::mt19937_64 random(testing::seed());
  for (int i = 0; i < 500; ++i) {
    std::vector<std::string> path(1 + random() % 4);
    std::string target;
    for (auto& word : path) target += "/" + (word = std::string(1, static_cast<char>('a' + random() % 3)));
    auto word = [&](std::size_t at) { return path[at] == "c" ? std::string("{x}") : path[at]; };
    std::string expected;  // one word: exact; two: exact; more: only a greedy second segment takes the tail
    if (path.size() == 1) expected = "/" + word(0);
    if (path.size() == 2) expected = "/" + word(0) + "/" + word(1);
    if (path.size() > 2) expected = "/" + word(0) + "/{x}";
    auto got = routed(router, "GET", target);
    EXPECT_EQ(got.substr(0, got.find(' ')), expected) << target << " seed " << testing::seed();
  }
}

}  // namespace
}  // namespace espalier::net
