// http_double.h: a small HTTP/1.1 server on 127.0.0.1 that answers as a test tells it, also badly.
//
// It speaks over real sockets, one thread per connection, so that clients are tested as they run: cut connections, slow
// bodies, redirects to a second port.
// Threads: the handler runs on many; guard what it shares.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace espalier::testing {

struct HttpDoubleRequest {
  std::string method, target, body;            // target: path and query as they came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string header(const std::string& name) const {
    auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

struct HttpDoubleReply {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::string raw;                            // sent instead of all the above when not empty
  std::size_t cut_after = std::string::npos;  // closes the connection after so many bytes of the body
  std::chrono::milliseconds pause{0};         // before each `piece` bytes of the body
  std::size_t piece = std::string::npos;
};

class HttpDouble {
 public:
  using Handler = std::function<HttpDoubleReply(const HttpDoubleRequest&)>;

  explicit HttpDouble(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      throw std::runtime_error("the test's server cannot listen on 127.0.0.1");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~HttpDouble() {
    stopping_ = true;
    acceptor_.join();
    for (std::thread& connection : connections_) connection.join();
    ::close(listener_);
  }
  HttpDouble(const HttpDouble&) = delete;
  HttpDouble& operator=(const HttpDouble&) = delete;

  int port() const { return port_; }
  std::string url(const std::string& path = "") const { return "http://127.0.0.1:" + std::to_string(port_) + path; }
  int connections() const { return accepted_; }
  std::vector<HttpDoubleRequest> requests() const {
    const std::scoped_lock lock(mutex_);
    return seen_;
  }

 private:
  bool readable(int fd) const {
    while (!stopping_) {
      pollfd p{fd, POLLIN, 0};
      if (::poll(&p, 1, 20) > 0) return true;
    }
    return false;
  }
  void accept_all() {
    while (readable(listener_)) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      ++accepted_;
      const int at_once = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
      connections_.emplace_back([this, fd] {
        std::string buffer;
        while (serve_one(fd, buffer)) {
        }
        ::close(fd);
      });
    }
  }
  bool read_more(int fd, std::string& buffer) const {
    if (!readable(fd)) return false;
    char bytes[65536];
    const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    buffer.append(bytes, static_cast<std::size_t>(n));
    return true;
  }
  static HttpDoubleRequest parse_head(const std::string& head) {
    HttpDoubleRequest request;
    const auto first = head.find(' ');
    const auto second = head.find(' ', first + 1);
    request.method = head.substr(0, first);
    request.target = head.substr(first + 1, second - first - 1);
    for (auto at = head.find("\r\n"); at != std::string::npos;) {
      const auto end = head.find("\r\n", at + 2);
      const std::string line = head.substr(at + 2, end == std::string::npos ? end : end - at - 2);
      const auto colon = line.find(':');
      if (colon != std::string::npos) {
        std::string name = line.substr(0, colon);
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
        request.headers[name] = line.substr(std::min(line.size(), line.find_first_not_of(' ', colon + 1)));
      }
      at = end;
    }
    return request;
  }
  bool serve_one(int fd, std::string& buffer) {
    std::size_t end;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos)
      if (!read_more(fd, buffer)) return false;
    HttpDoubleRequest request = parse_head(buffer.substr(0, end));
    const std::size_t length = std::strtoull(request.header("content-length").c_str(), nullptr, 10);
    while (buffer.size() < end + 4 + length)
      if (!read_more(fd, buffer)) return false;
    request.body = buffer.substr(end + 4, length);
    buffer.erase(0, end + 4 + length);
    {
      const std::scoped_lock lock(mutex_);
      seen_.push_back(request);
    }
    return send_reply(fd, request, handler_(request));
  }
  bool send_reply(int fd, const HttpDoubleRequest& request, const HttpDoubleReply& reply) const {
    if (!reply.raw.empty()) {
      send_all(fd, reply.raw);
      return false;
    }
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " x\r\n";
    bool has_length = false;
    for (const auto& [name, value] : reply.headers) {
      head += name + ": " + value + "\r\n";
      has_length = has_length || name == "Content-Length" || name == "Transfer-Encoding";
    }
    if (!has_length) head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
    if (!send_all(fd, head + "\r\n")) return false;
    if (request.method == "HEAD") return true;
    const std::string body = reply.body.substr(0, reply.cut_after);
    for (std::size_t at = 0; at < body.size() && !stopping_; at += std::min(reply.piece, body.size() - at)) {
      if (reply.pause.count() > 0) std::this_thread::sleep_for(reply.pause);
      if (!send_all(fd, body.substr(at, reply.piece))) return false;
    }
    return reply.cut_after == std::string::npos && !stopping_;
  }
  static bool send_all(int fd, const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> accepted_{0};
  std::thread acceptor_;
  std::list<std::thread> connections_;  // touched by the acceptor, then by the destructor
  mutable std::mutex mutex_;
  std::vector<HttpDoubleRequest> seen_;
};

}  // namespace espalier::testing
