#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "net/http/sse.h"
#include "net/server/test_client.h"

namespace espalier::net {
namespace {

using namespace test;

const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "espalier-net-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

Result<std::unique_ptr<HttpServer>> listen(std::string host, std::uint16_t port) {
  ServerOptions options;
  options.host = std::move(host);
  options.port = port;
  return HttpServer::listen(options, {echo, {}, {}, openai_error});
}

TEST(HttpLifecycle, ATakenPortIsASentenceThatNamesTheFlag) {
  TestServer first(echo);
  auto second = listen("127.0.0.1", first->port());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, Error::Kind::cannot_bind);
  EXPECT_EQ(second.error().field, "port");
  EXPECT_NE(second.error().message.find("--port"), std::string::npos) << second.error().message;
  auto nowhere = listen("203.0.113.1", 0);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().field, "host");
  EXPECT_FALSE(listen("not an address", 0).ok());
  ServerOptions bad;
  bad.io_threads = 0;
  EXPECT_FALSE(HttpServer::listen(bad, {echo, {}, {}, openai_error}).ok());
  EXPECT_FALSE(HttpServer::listen({}, {}).ok()) << "a handler is needed";
}

TEST(HttpLifecycle, APortIsFreeAgainAtOnceAfterAStop) {
  std::uint16_t port = 0;
  for (int i = 0; i < 3; ++i) {
    auto options = quiet_options();
    options.port = port;
    TestServer server(echo, options);
    port = server->port();
    auto client = server.client();
    EXPECT_EQ(client.ask(kGet).status, 200);
    EXPECT_EQ(server->url(), "http://127.0.0.1:" + std::to_string(port));
  }
}

TEST(HttpLifecycle, UnixSocketsServeAndAStaleOneIsReplaced) {
  Folder folder;
  auto path = (folder.path / "s.sock").string();
  auto options = quiet_options();
  options.host = "unix:" + path;
  {
    TestServer server([](HttpRequest r, Responder p) { p.respond(HttpResponse::text(200, r.peer_address)); }, options);
    RawClient client(path);
    EXPECT_EQ(client.ask(kGet).body, "unix");
    EXPECT_EQ(server->url(), "unix:" + path);
    EXPECT_FALSE(listen("unix:" + path, 0).ok()) << "somebody answers there";
  }
  EXPECT_FALSE(std::filesystem::exists(path)) << "a stopped server leaves no file";
  {
    auto left_behind = open_listener(options.host, 0, 1);  // closed without unlink, as by a kill
    ASSERT_TRUE(left_behind.ok());
  }
  ASSERT_TRUE(std::filesystem::exists(path));
  TestServer again(echo, options);
  RawClient client(path);
  EXPECT_EQ(client.ask(kGet).status, 200);
  EXPECT_FALSE(listen("unix:" + std::string(200, 'x'), 0).ok());
}

TEST(HttpLifecycle, AClientOnAUnixSocketThatClosesIsNoticed) {
  Folder folder;
  auto options = quiet_options();
  options.host = "unix:" + (folder.path / "s.sock").string();
  std::atomic<bool> pending{false}, gone{false};
  std::mutex mutex;
  std::optional<Responder> held;
  TestServer server(
      [&](HttpRequest, Responder responder) {
        std::lock_guard lock(mutex);
        held.emplace(std::move(responder));
        held->on_disconnect([&] { gone = true; });
        pending = true;
      },
      options);
  RawClient client((folder.path / "s.sock").string());
  client.send(kGet);
  ASSERT_TRUE(eventually([&] { return pending.load(); }));
  client.close();
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

TEST(HttpLifecycle, AnInheritedListeningSocketIsTaken) {
  auto listener = open_listener("127.0.0.1", 0, 16);
  ASSERT_TRUE(listener.ok());
  auto options = quiet_options();
  options.listen_fd = listener->fd.release();
  TestServer server(echo, options);
  EXPECT_EQ(server->port(), listener->port);
  auto client = server.client();
  EXPECT_EQ(client.ask(kGet).status, 200);
  ServerOptions wrong;
  wrong.listen_fd = 0;
  EXPECT_FALSE(HttpServer::listen(wrong, {echo, {}, {}, openai_error}).ok());
}

TEST(HttpLifecycle, DrainingFinishesWhatRunsRefusesWhatComesAndKeepsProbesAnswered) {
  std::mutex mutex;
  std::vector<StreamWriter> writers;
  HttpServer* self = nullptr;
  TestServer server([&](HttpRequest request, Responder responder) {
    if (request.path == "/readyz" || self->draining()) {
      HttpError draining{503, "shutting down", "draining", "", 1};
      return responder.respond(self->draining() ? openai_error(draining) : HttpResponse::text(200, "ready"));
    }
    std::lock_guard lock(mutex);
    writers.push_back(begin_sse(std::move(responder)));
  });
  self = server.server.get();
  auto streaming = server.client(), idle = server.client();
  streaming.send(kGet);
  EXPECT_EQ(idle.ask("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
  ASSERT_TRUE(streaming.read_until("\r\n\r\n"));
  server->begin_drain();
  auto refused = idle.ask(kGet);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers["retry-after"], "1");
  EXPECT_EQ(refused.headers["connection"], "close");
  EXPECT_TRUE(idle.closed_by_server());
  auto probe = server.client();
  EXPECT_EQ(probe.ask("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n").status, 503);

  std::thread stopper([&] { server->stop(10s); });
  std::this_thread::sleep_for(50ms);
  {
    std::lock_guard lock(mutex);
    EXPECT_EQ(writers.front().write("data: still here\n\n"), WriteState::ready);
    writers.front().finish();
  }
  auto reply = streaming.read_reply();
  EXPECT_TRUE(reply.whole);
  EXPECT_EQ(reply.body, "data: still here\n\n");
  stopper.join();
  EXPECT_FALSE(RawClient(server->port()).connected());
}

TEST(HttpLifecycle, StopCutsWhatDoesNotEndInTime) {
  std::atomic<bool> gone{false};
  std::mutex mutex;
  std::vector<StreamWriter> writers;
  TestServer server([&](HttpRequest, Responder responder) {
    std::lock_guard lock(mutex);
    writers.push_back(begin_sse(std::move(responder)));
    writers.back().on_disconnect([&] { gone = true; });
  });
  auto client = server.client();
  client.send(kGet);
  ASSERT_TRUE(client.read_until("\r\n\r\n"));
  server->stop(50ms);
  EXPECT_TRUE(gone);
  EXPECT_FALSE(client.read_reply().whole);
  server->stop(0ms);
}

TEST(HttpLifecycle, SeveralServersLiveInOneProcess) {
  std::vector<std::unique_ptr<TestServer>> servers;
  for (int i = 0; i < 5; ++i) {
    servers.push_back(std::make_unique<TestServer>(
        [i](HttpRequest, Responder p) { p.respond(HttpResponse::text(200, std::to_string(i))); }));
  }
  for (int i = 0; i < 5; ++i) {
    auto client = servers[static_cast<std::size_t>(i)]->client();
    EXPECT_EQ(client.ask(kGet).body, std::to_string(i));
  }
}

TEST(HttpLifecycle, AServerThatWasNeverStartedOrIsEmptyEndsCleanly) {
  {
    auto unstarted = listen("127.0.0.1", 0);
  }
  auto started = listen("127.0.0.1", 0);
  ASSERT_TRUE(started.ok());
  EXPECT_TRUE((*started)->start().ok());
  EXPECT_FALSE((*started)->start().ok()) << "twice";
}

TEST(HttpLifecycle, DescriptorsAndThreadsReturnToWhereTheyStarted) {
  auto count = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
  };
  auto descriptors = count("/proc/self/fd"), threads = count("/proc/self/task");
  for (int i = 0; i < 10; ++i) {
    TestServer server(echo);
    std::vector<RawClient> clients;
    for (int c = 0; c < 20; ++c) {
      clients.push_back(server.client());
      if (c % 2 == 0) {
        EXPECT_EQ(clients.back().ask(kGet).status, 200);
      }
    }
  }
  EXPECT_EQ(count("/proc/self/fd"), descriptors);
  EXPECT_EQ(count("/proc/self/task"), threads);
}

}  // namespace
}  // namespace espalier::net
