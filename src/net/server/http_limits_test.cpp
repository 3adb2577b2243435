// Every limit of the server as a client meets it. The exact edges of the parser's limits are in
// request_parser_test.cpp; here the three values around each go over a socket, and the time-outs run with short times.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "net/http/gzip.h"
#include "net/server/test_client.h"

namespace espalier::net {
namespace {

using namespace test;

const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

int status_of(const TestServer& server, std::string_view request) {
  auto client = server.client();
  auto reply = client.ask(request);
  if (reply.status >= 400) {
    EXPECT_TRUE(client.closed_by_server()) << request.substr(0, 100);
    EXPECT_FALSE(client.was_reset()) << request.substr(0, 100);
  }
  return reply.status;
}

std::string with_target(std::size_t line_bytes) {
  std::size_t frame = std::string_view("GET / HTTP/1.1").size();
  return "GET /" + std::string(line_bytes - frame, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n";
}
std::string with_fields(std::size_t bytes) {
  std::string host = "Host: a\r\n";
  return "GET / HTTP/1.1\r\n" + host + "X: " + std::string(bytes - host.size() - 5, 'v') + "\r\n\r\n";
}
std::string with_count(std::size_t count) {
  std::string fields;
  for (std::size_t i = 1; i < count; ++i) fields += "X: 1\r\n";
  return "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}
std::string with_body(std::size_t bytes) {
  return fmt::format("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", bytes) + std::string(bytes, 'b');
}
std::string with_chunks(std::string_view chunks) {
  return "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunks);
}
std::string with_chunked_body(std::size_t bytes) {
  return with_chunks(fmt::format("{:x}\r\n{}\r\n1\r\nc\r\n0\r\n\r\n", bytes - 1, std::string(bytes - 1, 'b')));
}

TEST(HttpLimits, SizesAreExactOverASocket) {
  TestServer server(
      [](HttpRequest r, Responder p) { p.respond(HttpResponse::text(200, std::to_string(r.body.size()))); });
  struct Row {
    std::string (*make)(std::size_t);
    std::size_t limit;
    int status;
  };
  const std::size_t megabytes32 = 32 * 1024 * 1024;
  for (const Row& row : {Row{with_target, 8 * 1024, 414}, Row{with_fields, 16 * 1024, 431}, Row{with_count, 100, 431},
                         Row{with_body, megabytes32, 413}, Row{with_chunked_body, megabytes32, 413}}) {
    EXPECT_EQ(status_of(server, row.make(row.limit - 1)), 200) << row.limit;
    EXPECT_EQ(status_of(server, row.make(row.limit)), 200) << row.limit;
    EXPECT_EQ(status_of(server, row.make(row.limit + 1)), row.status) << row.limit;
  }
  auto extension = [](std::size_t n) { return with_chunks("1;" + std::string(n - 1, 'e') + "\r\nx\r\n0\r\n\r\n"); };
  EXPECT_EQ(status_of(server, extension(256)), 200);
  EXPECT_EQ(status_of(server, extension(257)), 400);
  auto trailer = [](std::size_t n) { return with_chunks("0\r\nX: " + std::string(n - 5, 't') + "\r\n\r\n"); };
  EXPECT_EQ(status_of(server, trailer(16 * 1024)), 200);
  EXPECT_EQ(status_of(server, trailer(16 * 1024 + 1)), 400);
  EXPECT_EQ(server->stats().body_bytes_held, 0u);
}

TEST(HttpLimits, AmbiguousFramingIsRefusedAndTheConnectionClosed) {
  TestServer server(echo);
  for (std::string_view fields :
       {"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Content-Length: x\r\n", "Transfer-Encoding: gzip\r\n", "X : 1\r\n", "Host: b\r\n", "X: a\rb\r\n"}) {
    auto smuggled = "POST / HTTP/1.1\r\nHost: a\r\n" + std::string(fields) + "\r\n0\r\n\r\n" + kGet;
    auto client = server.client();
    EXPECT_EQ(client.ask(smuggled).status, 400) << fields;
    EXPECT_TRUE(client.closed_by_server());
    EXPECT_EQ(client.buffer(), "") << "what follows must not be taken for a request";
  }
  EXPECT_EQ(status_of(server, std::string("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 35)), 400);
}

TEST(HttpLimits, ASlowHeadIsA408AndASilentClientIsJustClosed) {
  auto options = quiet_options();
  options.header_timeout = 200ms;
  TestServer server(echo, options);
  auto silent = server.client();
  auto slow = server.client();
  slow.send("GET / HT");
  auto loris = server.client();  // a byte now and then does not help
  std::thread trickle([&] {
    for (char c :
         std::string_view("GET / HTTP/1.1\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")) {
      if (!loris.send(std::string_view(&c, 1))) break;
      std::this_thread::sleep_for(10ms);
    }
  });
  EXPECT_EQ(slow.read_reply().status, 408);
  EXPECT_TRUE(slow.closed_by_server());
  trickle.join();
  EXPECT_EQ(loris.read_reply().status, 408);
  EXPECT_TRUE(silent.closed_by_server());
  EXPECT_EQ(silent.buffer(), "");
  EXPECT_EQ(server->stats().timeouts, 2u);
}

TEST(HttpLimits, ABodyThatPausesOrTricklesIsA408) {
  auto options = quiet_options();
  options.body_timeout = 200ms;
  options.body_min_rate = 1000;
  TestServer server(echo, options);
  auto paused = server.client();
  paused.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nsome");
  auto trickling = server.client();
  trickling.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
  std::thread trickle([&] {
    for (int i = 0; i < 100 && trickling.send("x"); ++i) std::this_thread::sleep_for(10ms);
  });
  EXPECT_EQ(paused.read_reply().status, 408);
  trickle.join();
  EXPECT_EQ(trickling.read_reply().status, 408);
  auto steady = server.client();
  steady.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n");
  for (int i = 0; i < 50; ++i) {
    steady.send(std::string(200, 'x'));
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(steady.read_reply().status, 200);
}

TEST(HttpLimits, IdleConnectionsAreClosedWithoutAWord) {
  auto options = quiet_options();
  options.idle_timeout = 150ms;
  TestServer server(echo, options);
  auto client = server.client();
  EXPECT_EQ(client.ask(kGet).status, 200);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(client.ask(kGet).status, 200);
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_EQ(client.buffer(), "");
  EXPECT_FALSE(client.was_reset());
}

TEST(HttpLimits, ConnectionsAboveTheLimitAreToldSoPolitely) {
  std::mutex mutex;
  std::vector<Responder> held;
  auto options = quiet_options();
  options.max_connections = 3;
  TestServer server(
      [&](HttpRequest, Responder responder) {
        std::lock_guard lock(mutex);
        held.push_back(std::move(responder));
      },
      options);
  std::vector<RawClient> busy;
  for (std::size_t i = 1; i <= 3; ++i) {
    busy.push_back(server.client());
    busy.back().send(kGet);
    ASSERT_TRUE(eventually([&] {
      std::lock_guard lock(mutex);
      return held.size() == i;
    }));
  }
  auto begin = Clock::now();
  auto refused = server.client();
  auto reply = refused.ask(kGet);
  auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  std::printf("a connection over the limit was refused after %lld ms\n", static_cast<long long>(waited.count()));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers["retry-after"], "1");
  EXPECT_TRUE(refused.closed_by_server());
  EXPECT_FALSE(refused.was_reset());
  busy.front().close();
  ASSERT_TRUE(eventually([&] { return server->stats().connections_open < 3; }));
  auto admitted = server.client();
  admitted.send(kGet);
  EXPECT_TRUE(eventually([&] {
    std::lock_guard lock(mutex);
    return held.size() == 4;
  }));
}

TEST(HttpLimits, SurplusConnectionsWaitForTheirRefusalAndNoneIsReset) {
  auto options = quiet_options();
  options.max_connections = 3;
  TestServer server([](HttpRequest, Responder) {}, options);  // nobody is ever answered
  std::vector<RawClient> busy, surplus;
  for (int i = 0; i < 3; ++i) {
    busy.push_back(server.client());
    busy.back().send("GET / HT");
  }
  ASSERT_TRUE(eventually([&] { return server->stats().connections_open == 3; }));
  for (int i = 0; i < 150; ++i) {
    surplus.push_back(server.client());
    ASSERT_TRUE(surplus.back().send(kGet));
  }
  for (auto& client : surplus) {
    const auto reply = client.read_reply();
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.headers.at("retry-after"), "1");
    EXPECT_TRUE(client.closed_by_server());
    EXPECT_FALSE(client.was_reset());
    client.close();
  }
  busy.clear();
  ASSERT_TRUE(eventually([&] { return server->stats().connections_open == 0; }));
  EXPECT_EQ(server->stats().connections_refused, 150u);
}

TEST(HttpLimits, SurplusConnectionsAreServedAsPlacesBecomeFree) {
  auto options = quiet_options();
  options.max_connections = 2;
  options.io_threads = 2;
  TestServer server(echo, options);
  std::atomic<int> served = 0, refused = 0, lost = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back([&] {
      auto client = server.client();
      const int status = client.ask(kGet).status;
      ++(status == 200 ? served : status == 503 ? refused : lost);
    });
  }
  for (auto& client : clients) client.join();
  std::printf("of 60 clients for 2 places %d were served and %d refused\n", served.load(), refused.load());
  EXPECT_EQ(lost, 0);
  EXPECT_GE(served, 2);
  auto late = server.client();
  EXPECT_TRUE(eventually([&] { return server->stats().connections_open <= 1; }));
  EXPECT_EQ(late.ask(kGet).status, 200);
}

TEST(HttpLimits, TheLongestIdleConnectionMakesRoomForANewOne) {
  auto options = quiet_options();
  options.max_connections = 3;
  TestServer server(echo, options);
  std::vector<RawClient> idle;
  for (int i = 0; i < 3; ++i) {
    idle.push_back(server.client());
    EXPECT_EQ(idle.back().ask(kGet).status, 200);
    std::this_thread::sleep_for(5ms);
  }
  std::this_thread::sleep_for(250ms);  // who has only just come is not idle yet
  for (int i = 0; i < 3; ++i) {
    auto fresh = server.client();
    EXPECT_EQ(fresh.ask(kGet).status, 200);
    EXPECT_TRUE(idle[static_cast<std::size_t>(i)].closed_by_server()) << "the oldest first";
    idle.push_back(std::move(fresh));
  }
  EXPECT_EQ(server->stats().connections_evicted, 3u);
}

TEST(HttpLimits, OneAddressHasItsOwnLimit) {
  auto options = quiet_options();
  options.max_per_address = 2;
  TestServer server(echo, options);
  auto one = server.client(), two = server.client();
  EXPECT_EQ(one.ask(kGet).status, 200);
  EXPECT_EQ(two.ask(kGet).status, 200);
  auto three = server.client();
  EXPECT_EQ(three.ask(kGet).status, 503);
  EXPECT_EQ(one.ask(kGet).status, 200);
}

TEST(HttpLimits, AllBodiesTogetherAreBounded) {
  auto options = quiet_options();
  options.body_total_bytes = 100'000;
  TestServer server(echo, options);
  auto half = server.client();
  half.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60001\r\n\r\n" + std::string(60'000, 'x'));
  ASSERT_TRUE(eventually([&] { return server->stats().body_bytes_held == 60'000; }));
  auto other = server.client();
  auto reply = other.ask(with_body(60'000));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers["retry-after"], "1");
  EXPECT_EQ(half.ask("y").status, 200);
  EXPECT_EQ(status_of(server, with_body(60'000)), 200);
  EXPECT_TRUE(eventually([&] { return server->stats().body_bytes_held == 0; }));
}

// Lowers this process's descriptor limit to what is open plus `spare`, and puts it back.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t spare) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    UniqueFd next(::dup(0));
    rlimit few{static_cast<rlim_t>(next.get()) + spare, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

TEST(HttpLimits, TheServerOutlivesAnEmptyDescriptorTableWithoutSpinning) {
  TestServer server([](HttpRequest, Responder) {});
  auto options = quiet_options();
  options.reserved_descriptors = 0;
  TestServer alive(echo, options);
  // Client sockets first, so that accept() in the server is what fails.
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < 40; ++i) sockets.emplace_back(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(alive->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  {
    FewDescriptors few(10);
    for (auto& socket : sockets) {
      ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      ::send(socket.get(), "POST / HTTP/1.1\r\n", 17, MSG_NOSIGNAL);  // busy, so that none is closed to make room
    }
    ASSERT_TRUE(eventually([&] { return alive->stats().accept_backoffs >= 2; }));
    double before = cpu_seconds();
    std::this_thread::sleep_for(500ms);
    double used = cpu_seconds() - before;
    std::printf("half a second without descriptors cost %.0f ms of CPU\n", used * 1e3);
    EXPECT_LT(used, 0.25) << "it spins";
  }
  for (auto& socket : sockets) {
    std::string rest = "Host: a\r\nContent-Length: 0\r\n\r\n";
    ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    char byte = 0;
    ASSERT_EQ(::recv(socket.get(), &byte, 1, 0), 1) << "everybody who waited is served once there are descriptors";
    socket.reset();
  }
  auto client = alive.client();
  EXPECT_EQ(client.ask(kGet).status, 200);
}

TEST(HttpLimits, TheDescriptorLimitOfTheProcessLowersTheConnectionLimit) {
  auto options = quiet_options();
  std::optional<TestServer> server;
  {
    FewDescriptors few(40);
    options.reserved_descriptors = 0;
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    options.reserved_descriptors = now.rlim_cur - 10;  // so that 10 connections are left
    server.emplace(echo, options);
  }
  std::vector<RawClient> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(server->client());
    clients.back().send("GET / HT");
  }
  ASSERT_TRUE(eventually([&] { return (*server)->stats().connections_open == 10; }));
  auto eleventh = server->client();
  EXPECT_EQ(eleventh.ask(kGet).status, 503);
}

}  // namespace
}  // namespace espalier::net
