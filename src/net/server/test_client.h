// test_client.h: for tests only: a client that sends raw bytes and reads what comes back, and a server to talk to.
// Threads: one at a time. Fails: a read that takes longer than its limit returns what it has.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "net/server/http_server.h"
#include "net/socket.h"

namespace espalier::net::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// One answer as the raw client read it.
struct Reply {
  int status = 0;                              // 0: the connection ended before a head was complete
  std::map<std::string, std::string> headers;  // names in lower case; repeated ones joined by ", "
  std::string body;
  bool whole = false;  // the body came to its end
  int interim = 0;     // 100 Continue before it
};

// A TCP client that sends bytes as they are given.
class RawClient {
 public:
  static constexpr auto kReadLimit = 10s;

  explicit RawClient(std::uint16_t port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(reinterpret_cast<sockaddr*>(&address), sizeof address);
    int on = 1;
    ::setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  explicit RawClient(const std::string& unix_path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, unix_path.c_str(), sizeof address.sun_path - 1);
    connect(reinterpret_cast<sockaddr*>(&address), sizeof address);
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }

  // False: the server closed. Sends all, also when the server reads slowly.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t n = ::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  void send_byte_by_byte(std::string_view bytes) {
    for (char c : bytes) {
      if (!send(std::string_view(&c, 1))) return;
    }
  }
  void half_close() { ::shutdown(fd(), SHUT_WR); }
  void close() { fd_.reset(); }
  void reset() {
    linger abort{1, 0};
    ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &abort, sizeof abort);
    fd_.reset();
  }

  // Reads more into the buffer; false at the end of the connection or when limit ran out.
  bool read_more(std::chrono::milliseconds limit = kReadLimit) {
    pollfd query{fd(), POLLIN, 0};
    if (::poll(&query, 1, static_cast<int>(limit.count())) <= 0) return false;
    char bytes[16384];
    ssize_t n = ::recv(fd(), bytes, sizeof bytes, 0);
    was_reset_ = n < 0 && errno == ECONNRESET;
    ended_ = n <= 0;
    if (n > 0) buffer_.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  }
  // Whether the server closed the connection within the limit; reads what still comes.
  bool closed_by_server(std::chrono::milliseconds limit = kReadLimit) {
    auto deadline = Clock::now() + limit;
    while (!ended_ && Clock::now() < deadline) {
      read_more(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()) + 1ms);
    }
    return ended_;
  }
  bool was_reset() const { return was_reset_; }
  std::string& buffer() { return buffer_; }
  bool read_until(std::string_view text, std::chrono::milliseconds limit = kReadLimit) {
    auto deadline = Clock::now() + limit;
    while (buffer_.find(text) == std::string::npos) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() <= 0 || !read_more(left)) return buffer_.find(text) != std::string::npos;
    }
    return true;
  }

  // One reply off the front of the stream; interim ones are counted and skipped.
  Reply read_reply(bool to_head_request = false) {
    Reply reply;
    while (read_head(reply) && reply.status == 100) {
      ++reply.interim;
      reply.headers.clear();
    }
    if (reply.status == 0) return reply;
    if (to_head_request || reply.status == 204 || reply.status == 304) {
      reply.whole = true;
    } else if (reply.headers.count("transfer-encoding") != 0) {
      read_chunks(reply);
    } else if (reply.headers.count("content-length") != 0) {
      std::size_t length = std::stoul(reply.headers["content-length"]);
      while (buffer_.size() < length && read_more()) {
      }
      reply.whole = buffer_.size() >= length;
      reply.body = take(std::min(length, buffer_.size()));
    } else {
      while (read_more()) {
      }
      reply.whole = true;
      reply.body = take(buffer_.size());
    }
    return reply;
  }
  Reply ask(std::string_view request) {
    send(request);
    return read_reply();
  }

 private:
  void connect(const sockaddr* address, socklen_t length) { connected_ = ::connect(fd(), address, length) == 0; }
  std::string take(std::size_t bytes) {
    std::string out = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return out;
  }
  bool read_head(Reply& reply) {
    reply.status = 0;
    if (!read_until("\r\n\r\n")) return false;
    std::string head = take(buffer_.find("\r\n\r\n") + 2);
    take(2);
    reply.status = std::stoi(head.substr(9, 3));
    for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
      std::size_t end = head.find("\r\n", at), colon = head.find(": ", at);
      std::string name = head.substr(at, colon - at);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      auto& value = reply.headers[name];
      value += (value.empty() ? "" : ", ") + head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    return true;
  }
  void read_chunks(Reply& reply) {
    for (;;) {
      if (!read_until("\r\n")) return;
      std::size_t line = buffer_.find("\r\n"), size = std::stoul(buffer_.substr(0, line), nullptr, 16);
      while (buffer_.size() < line + 2 + size + 2) {
        if (!read_more()) return;
      }
      reply.body += buffer_.substr(line + 2, size);
      buffer_.erase(0, line + 2 + size + 2);
      if (size == 0) break;
    }
    reply.whole = true;
  }

  UniqueFd fd_;
  bool connected_ = false, ended_ = false, was_reset_ = false;
  std::string buffer_;
};

inline ServerOptions quiet_options() {
  ServerOptions options;
  options.port = 0;
  options.linger_timeout = 500ms;
  return options;
}

// A started server on a free port; stops when it goes out of scope.
struct TestServer {
  std::unique_ptr<HttpServer> server;

  explicit TestServer(std::function<void(HttpRequest, Responder)> handle, ServerOptions options = quiet_options(),
                      decltype(ServerHooks::admit) admit = {}) {
    auto made = HttpServer::listen(std::move(options), {std::move(handle), std::move(admit), {}, openai_error});
    if (!made.ok()) throw std::runtime_error(made.error().message);
    server = std::move(made).value();
    if (auto started = server->start(); !started.ok()) throw std::runtime_error(started.error().message);
  }
  RawClient client(int receive_buffer = 0) const { return RawClient(server->port(), receive_buffer); }
  HttpServer* operator->() const { return server.get(); }
};

// What the handler got, as text: most tests only want to see it come back.
inline void echo(HttpRequest request, Responder responder) {
  std::string text = request.method_name + " " + request.path + "\n" + request.body;
  responder.respond(HttpResponse::text(200, std::move(text)));
}

template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit = 10s) {
  for (auto deadline = Clock::now() + limit; Clock::now() < deadline; std::this_thread::sleep_for(1ms)) {
    if (condition()) return true;
  }
  return condition();
}

// Keeps what the handlers were given, for the test to answer.
class Held {
 public:
  void operator()(HttpRequest, Responder responder) {
    std::lock_guard lock(mutex_);
    responders_.push_back(std::move(responder));
  }
  Responder next() {
    EXPECT_TRUE(eventually([&] {
      std::lock_guard lock(mutex_);
      return !responders_.empty();
    }));
    std::lock_guard lock(mutex_);
    if (responders_.empty()) return {};
    Responder responder = std::move(responders_.front());
    responders_.erase(responders_.begin());
    return responder;
  }

 private:
  std::mutex mutex_;
  std::vector<Responder> responders_;
};

}  // namespace espalier::net::test
