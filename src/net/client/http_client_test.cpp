#include "net/client/http_client.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "testing/http_double.h"

namespace espalier::net {
namespace {

using espalier::testing::HttpDouble;
using espalier::testing::HttpDoubleReply;
using espalier::testing::HttpDoubleRequest;
using namespace std::chrono_literals;

ClientRequest get(std::string url) {
  ClientRequest request;
  request.url = std::move(url);
  return request;
}

HttpDoubleReply text(std::string body, int status = 200) {
  HttpDoubleReply reply;
  reply.status = status;
  reply.body = std::move(body);
  return reply;
}

HttpDoubleReply redirect_to(const std::string& where, int status = 302) {
  HttpDoubleReply reply = text("moved", status);
  reply.headers = {{"Location", where}, {"X-Hop", "first"}};
  return reply;
}

struct Collected : BodySink {
  Result<> on_head(const ClientResponse& response) override {
    head = response;
    return refuse_head ? Result<>(bad_request("no thanks")) : success();
  }
  Result<> on_body(std::string_view piece) override {
    body += piece;
    if (on_piece) on_piece();
    return success();
  }
  ClientResponse head;
  std::string body;
  bool refuse_head = false;
  std::function<void()> on_piece;
};

TEST(HttpClient, GetsABodyWithStatusAndHeaders) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    EXPECT_EQ(request.method, "GET");
    EXPECT_EQ(request.header("x-asked"), "yes");
    EXPECT_TRUE(request.header("user-agent").starts_with("espalier/"));
    HttpDoubleReply reply = text("hello");
    reply.headers = {{"ETag", "\"abc\""}};
    return reply;
  });
  ClientRequest request = get(server.url("/a?b=c"));
  request.headers = {{"X-Asked", "yes"}};
  auto response = HttpClient().fetch(request);
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "hello");
  EXPECT_EQ(response->header("etag"), "\"abc\"");
  EXPECT_EQ(server.requests().at(0).target, "/a?b=c");
}

TEST(HttpClient, PostsABodyAsItIsAndAsksHeadersOnly) {
  HttpDouble server([](const HttpDoubleRequest& request) { return text(request.body); });
  HttpClient client;
  ClientRequest post = get(server.url());
  post.method = Method::post;
  post.headers = {{"Content-Type", "application/json"}};
  post.body = std::string(3'000'000, 'x') + std::string("\0end", 4);
  auto echoed = client.fetch(post);
  ASSERT_TRUE(echoed.ok()) << echoed.error().message;
  EXPECT_EQ(echoed->body, post.body);
  EXPECT_EQ(server.requests().at(0).header("content-type"), "application/json");
  EXPECT_EQ(server.requests().at(0).header("expect"), "");

  ClientRequest head = get(server.url());
  head.method = Method::head;
  head.max_body_bytes = 0;
  auto response = client.fetch(head);
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, 200);
}

TEST(HttpClient, UsesAConnectionAgain) {
  HttpDouble server([](const HttpDoubleRequest&) { return text("x"); });
  HttpClient client;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.fetch(get(server.url())).ok());
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpClient, ManyThreadsShareOneClient) {
  HttpDouble server([](const HttpDoubleRequest& request) { return text(request.target); });
  HttpClient client;
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string path = "/" + std::to_string(t) + "/" + std::to_string(i);
        auto response = client.fetch(get(server.url(path)));
        right += response.ok() && response->body == path;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 160);
}

TEST(HttpClient, AnErrorStatusIsAnAnswerAndMakesASentence) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    HttpDoubleReply reply = text("{}", std::atoi(request.target.c_str() + 1));
    reply.headers = {{"Retry-After", "7"}};
    return reply;
  });
  HttpClient client;
  const std::pair<int, Error::Kind> kinds[] = {{400, Error::Kind::bad_request}, {401, Error::Kind::unauthorized},
                                               {403, Error::Kind::forbidden},   {404, Error::Kind::not_found},
                                               {429, Error::Kind::busy},        {500, Error::Kind::network},
                                               {503, Error::Kind::unavailable}};
  for (auto [status, kind] : kinds) {
    auto response = client.fetch(get(server.url("/" + std::to_string(status) + "?token=secret")));
    ASSERT_TRUE(response.ok());
    const Error error = http_status_error(*response, "the list");
    EXPECT_EQ(error.kind, kind);
    EXPECT_NE(error.message.find("the list"), std::string::npos);
    EXPECT_NE(error.message.find("after 7 s"), std::string::npos);
    EXPECT_EQ(error.message.find("secret"), std::string::npos);
  }
}

TEST(HttpClient, FollowsRedirectsWithinTheLimitAndKeepsTheFirstHeaders) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    if (request.target == "/loop") return redirect_to("/loop");
    return request.target == "/end" ? text("there") : redirect_to("end");
  });
  HttpClient client;
  auto response = client.fetch(get(server.url("/start")));
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->body, "there");
  EXPECT_EQ(response->url, server.url("/end"));
  EXPECT_EQ(response->first_headers.get("x-hop"), "first");

  auto endless = client.fetch(get(server.url("/loop")));
  ASSERT_FALSE(endless.ok());
  EXPECT_EQ(endless.error().kind, Error::Kind::network);

  ClientRequest stay = get(server.url("/start"));
  stay.max_redirects = 0;
  auto answer = client.fetch(stay);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 302);
  EXPECT_EQ(answer->header("location"), "end");
}

TEST(HttpClient, ARedirectsOwnPageCountsForNothing) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    return request.target == "/end" ? text("ok") : redirect_to("/end");  // whose page is longer than the limit
  });
  HttpClient client;
  ClientRequest request = get(server.url("/start"));
  request.max_body_bytes = 2;
  auto response = client.fetch(request);
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->body, "ok");
}

TEST(HttpClient, CredentialsStayWithTheFirstOriginAlsoOnTheWayBack) {
  std::string home_url;
  HttpDouble other([&](const HttpDoubleRequest& request) {
    EXPECT_EQ(request.header("authorization"), "");
    EXPECT_EQ(request.header("x-plain"), "kept");
    return redirect_to(home_url + "/back");
  });
  HttpDouble home([&](const HttpDoubleRequest& request) {
    if (request.target == "/back") {
      EXPECT_EQ(request.header("authorization"), "");
      return text("done");
    }
    EXPECT_EQ(request.header("authorization"), "Bearer secret");
    return request.target == "/first" ? redirect_to("/second") : redirect_to(other.url("/away"));
  });
  home_url = home.url();
  ClientRequest request = get(home.url("/first"));
  request.credentials = {{"Authorization", "Bearer secret"}};
  request.headers = {{"X-Plain", "kept"}};
  auto response = HttpClient().fetch(request);
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->body, "done");
  EXPECT_EQ(other.requests().size(), 1u);
}

TEST(HttpClient, NeverFollowsToAnotherScheme) {
  std::string where;
  HttpDouble server([&](const HttpDoubleRequest&) { return redirect_to(where); });
  HttpClient client;
  for (const char* target : {"file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x", "javascript:1"}) {
    where = target;
    auto response = client.fetch(get(server.url()));
    ASSERT_FALSE(response.ok()) << target;
    EXPECT_EQ(response.error().kind, Error::Kind::bad_request) << response.error().message;
  }
}

TEST(HttpClient, RefusesUrlsAndHeadersThatWouldSmuggle) {
  HttpClient client;
  for (const char* url : {"", "models/x", "file:///etc/passwd", "http://", "http://user:pw@localhost/", "http://a b/",
                          "http://localhost/\r\nX: y", "ftp://localhost/"}) {
    auto response = client.fetch(get(url));
    ASSERT_FALSE(response.ok()) << url;
    EXPECT_EQ(response.error().kind, Error::Kind::bad_request) << url;
    EXPECT_EQ(response.error().message.find("pw"), std::string::npos);
  }
  HttpDouble server([](const HttpDoubleRequest&) { return text("x"); });
  ClientRequest request = get(server.url());
  request.headers = {{"X-Name", "value\r\nHost: evil"}};
  auto response = client.fetch(request);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, Error::Kind::bad_request);
  EXPECT_TRUE(server.requests().empty());
}

TEST(HttpClient, ABodyLimitHoldsAtItsEdge) {
  for (bool announced : {true, false}) {
    HttpDouble server([&](const HttpDoubleRequest&) {
      HttpDoubleReply reply = text(std::string(1000, 'x'));
      if (!announced) {
        reply.headers = {{"Transfer-Encoding", "chunked"}};
        reply.body = "3e8\r\n" + reply.body + "\r\n0\r\n\r\n";
      }
      return reply;
    });
    HttpClient client;
    ClientRequest request = get(server.url());
    for (std::uint64_t limit : {999u, 1000u, 1001u}) {
      request.max_body_bytes = limit;
      auto response = client.fetch(request);
      EXPECT_EQ(response.ok(), limit >= 1000) << limit;
      if (!response.ok()) {
        EXPECT_EQ(response.error().kind, Error::Kind::too_large);
      }
    }
  }
}

TEST(HttpClient, EndlessHeadersAreCutOff) {
  HttpDouble server([](const HttpDoubleRequest&) {
    HttpDoubleReply reply;
    reply.raw = "HTTP/1.1 200 OK\r\n";
    for (int i = 0; i < 2000; ++i) reply.raw += "X-H: " + std::string(1000, 'y') + "\r\n";
    reply.raw += "\r\n";
    return reply;
  });
  auto response = HttpClient().fetch(get(server.url()));
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, Error::Kind::too_large) << response.error().message;
}

TEST(HttpClient, BrokenAnswersAreNetworkErrors) {
  std::string raw;
  HttpDouble server([&](const HttpDoubleRequest&) {
    HttpDoubleReply reply;
    reply.raw = raw;
    return reply;
  });
  HttpClient client;
  for (const char* bad : {"garbage\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "HTTP/1.1 2\r\n\r\n",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 200 OK\r\nX"}) {
    raw = bad;
    auto response = client.fetch(get(server.url()));
    ASSERT_FALSE(response.ok()) << bad;
    EXPECT_EQ(response.error().kind, Error::Kind::network) << response.error().message;
  }
}

TEST(HttpClient, AskedForTheRestItTellsWhereTheRestBegins) {
  bool honoured = true;
  bool lying = false;
  const std::string whole = "0123456789";
  HttpDouble server([&](const HttpDoubleRequest& request) {
    EXPECT_EQ(request.header("range"), "bytes=4-");
    if (!honoured) return text(whole);
    HttpDoubleReply reply = text(whole.substr(4), 206);
    reply.headers = {{"Content-Range", lying ? "bytes 3-9/10" : "bytes 4-9/10"}};
    return reply;
  });
  HttpClient client;
  ClientRequest request = get(server.url());
  request.range_from = 4;
  auto rest = client.fetch(request);
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  EXPECT_EQ(rest->body_offset, 4u);
  EXPECT_EQ(rest->body, "456789");
  honoured = false;
  auto all = client.fetch(request);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->body_offset, 0u);
  EXPECT_EQ(all->body, whole);
  honoured = lying = true;
  EXPECT_EQ(client.fetch(request).error().kind, Error::Kind::network);
}

TEST(HttpClient, StreamsPiecesAsTheyCome) {
  HttpDouble server([](const HttpDoubleRequest&) {
    HttpDoubleReply reply = text("data: 1\n\ndata: 2\n\ndata: 3\n\n");
    reply.piece = 9;
    reply.pause = 20ms;
    return reply;
  });
  Collected sink;
  int pieces = 0;
  sink.on_piece = [&] { ++pieces; };
  auto response = HttpClient().stream(get(server.url()), sink);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(sink.body, "data: 1\n\ndata: 2\n\ndata: 3\n\n");
  EXPECT_EQ(sink.head.body_bytes, 27u);
  EXPECT_GE(pieces, 2);
  EXPECT_TRUE(response->body.empty());
}

TEST(HttpClient, TheSinksErrorEndsTheTransferAndIsItsResult) {
  HttpDouble server([](const HttpDoubleRequest&) { return text("never wanted"); });
  Collected sink;
  sink.refuse_head = true;
  auto response = HttpClient().stream(get(server.url()), sink);
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().message, "no thanks");
  EXPECT_EQ(sink.body, "");

  Collected throwing;
  throwing.on_piece = [] { throw std::runtime_error("disk on fire"); };
  auto thrown = HttpClient().stream(get(server.url()), throwing);
  ASSERT_FALSE(thrown.ok());
  EXPECT_NE(thrown.error().message.find("disk on fire"), std::string::npos);
}

TEST(HttpClient, AStopRequestEndsAWaitAtOnce) {
  HttpDouble server([](const HttpDoubleRequest&) {
    HttpDoubleReply reply = text(std::string(1000, 'x'));
    reply.piece = 1;
    reply.pause = 100ms;
    return reply;
  });
  std::stop_source source;
  ClientRequest request = get(server.url());
  request.stop = source.get_token();
  std::thread stopper([&] {
    std::this_thread::sleep_for(150ms);
    source.request_stop();
  });
  auto response = HttpClient().fetch(request);
  stopper.join();
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, Error::Kind::cancelled);
}

TEST(HttpClient, SilenceAndSlownessRunIntoTheirOwnLimits) {
  HttpDouble server([](const HttpDoubleRequest& request) {
    HttpDoubleReply reply = text("xxxxxxxxxx");
    reply.piece = 1;
    reply.pause = request.target == "/silent" ? 600ms : 60ms;
    return reply;
  });
  HttpClient client;
  ClientRequest silent = get(server.url("/silent"));
  silent.idle_timeout = 200ms;
  silent.connect_timeout = 100ms;
  auto first = client.fetch(silent);
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().kind, Error::Kind::timeout);
  EXPECT_NE(first.error().message.find("sent nothing"), std::string::npos);

  ClientRequest slow = get(server.url("/slow"));
  slow.total_timeout = 200ms;
  auto second = client.fetch(slow);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, Error::Kind::timeout);
  EXPECT_NE(second.error().message.find("did not finish"), std::string::npos);
}

TEST(HttpClient, NobodyThereIsANetworkErrorThatNamesTheHost) {
  int port;
  {
    HttpDouble gone([](const HttpDoubleRequest&) { return text(""); });
    port = gone.port();
  }
  auto refused = HttpClient().fetch(get("http://127.0.0.1:" + std::to_string(port) + "/x?sig=secret"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::network);
  EXPECT_NE(refused.error().message.find("127.0.0.1:" + std::to_string(port)), std::string::npos);
  EXPECT_EQ(refused.error().message.find("secret"), std::string::npos);
}

TEST(HttpClient, APrivateAddressIsRefusedWhereOnlyPublicOnesAreWanted) {
  HttpDouble server([](const HttpDoubleRequest&) { return text("inside"); });
  HttpClient client;
  ASSERT_TRUE(client.fetch(get(server.url())).ok());  // leaves an open connection that must not be used
  for (const std::string host : {"127.0.0.1", "localhost", "2130706433", "0.0.0.0"}) {
    ClientRequest request = get("http://" + host + ":" + std::to_string(server.port()) + "/");
    request.public_addresses_only = true;
    auto response = client.fetch(request);
    ASSERT_FALSE(response.ok()) << host;
    EXPECT_EQ(response.error().kind, Error::Kind::forbidden) << response.error().message;
  }
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpClient, GoesThroughTheEnvironmentsProxyUnlessTheHostIsExempt) {
  HttpDouble proxy([](const HttpDoubleRequest& request) { return text("via proxy to " + request.target); });
  HttpDouble direct([](const HttpDoubleRequest&) { return text("direct"); });
  ::setenv("http_proxy", proxy.url().c_str(), 1);
  ::setenv("no_proxy", "127.0.0.1", 1);
  HttpClient client;
  auto proxied = client.fetch(get("http://models.invalid/x"));
  auto exempt = client.fetch(get(direct.url("/x")));
  ::unsetenv("http_proxy");
  ::unsetenv("no_proxy");
  ASSERT_TRUE(proxied.ok()) << proxied.error().message;
  EXPECT_EQ(proxied->body, "via proxy to http://models.invalid/x");
  ASSERT_TRUE(exempt.ok());
  EXPECT_EQ(exempt->body, "direct");
}

}  // namespace
}  // namespace espalier::net
