#include "net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/system/socket_calls.h"

namespace espalier::net {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::size_t kPartsPerCall = 16;

std::string reason(int error) {
  return std::generic_category().message(error);
}

Error cannot_bind(std::string message, std::string field) {
  return {Error::Kind::cannot_bind, std::move(message), std::move(field), {}};
}

void set_flag(int fd, int level, int option, int value = 1) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return cannot_bind(fmt::format("the socket path must be 1 to {} bytes long", sizeof address.sun_path - 1), "host");
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

// A socket file nobody listens behind is what a killed server leaves; it must not need a hand to remove it.
void remove_stale_socket(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  UniqueFd probe(open_socket(AF_UNIX, SOCK_STREAM, 0, Blocking::no));
  int connected = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (connected != 0 && errno == ECONNREFUSED) ::unlink(path.c_str());
}

Result<Listener> listen_unix(const std::string& path, int backlog) {
  ESP_TRY(auto address, unix_address(path));
  remove_stale_socket(path, address);
  UniqueFd fd(open_socket(AF_UNIX, SOCK_STREAM, 0, Blocking::no));
  if (!fd) return cannot_bind(fmt::format("no socket could be opened: {}", reason(errno)), "host");
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), backlog) != 0) {
    return cannot_bind(
        fmt::format("cannot listen on unix:{}: {}; choose another path with --host unix:PATH", path, reason(errno)),
        "host");
  }
  return Listener{std::move(fd), 0, path, true};
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
                                       : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The Listener's fd is invalid, and errno set, when this address does not work.
Listener listen_on(const addrinfo& address, int backlog) {
  UniqueFd fd(open_socket(address.ai_family, SOCK_STREAM, 0, Blocking::no));
  if (!fd) return {};
  set_flag(fd.get(), SOL_SOCKET, SO_REUSEADDR);
  if (address.ai_family == AF_INET6) set_flag(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 || ::listen(fd.get(), backlog) != 0) return {};
  auto port = bound_port(fd.get());
  return {std::move(fd), port, {}, false};
}

Result<Listener> listen_tcp(const std::string& host, std::uint16_t port, int backlog) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* l) {
    if (l) ::freeaddrinfo(l);
  });
  if (code != 0) {
    return cannot_bind(fmt::format("--host {}: {}; give an address of this machine", host, ::gai_strerror(code)),
                       "host");
  }
  int error = EADDRNOTAVAIL;
  for (const addrinfo* each = list; each; each = each->ai_next) {
    if (auto listener = listen_on(*each, backlog); listener.fd) return listener;
    error = errno;
  }
  bool taken = error == EADDRINUSE;
  return cannot_bind(fmt::format("cannot listen on {}:{}: {}; {}", host, port, reason(error),
                                 taken ? "stop the program that uses the port, or choose another with --port"
                                       : "choose another address with --host or another port with --port"),
                     taken ? "port" : "host");
}

// Events go out one by one, and a peer that vanished without a word is found within a minute.
void set_tcp_flags(int fd) {
  set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
  keep_alive(fd, 30, 10, 3);
}

Result<> check_listening(int fd) {
  int listening = 0;
  socklen_t length = sizeof listening;
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening != 0) return success();
  return cannot_bind(fmt::format("descriptor {} is not a listening socket", fd), "listen_fd");
}

// "" when the socket is no Unix socket. An abstract name begins with '@'.
std::string path_of(int fd) {
  sockaddr_un address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 || address.sun_family != AF_UNIX)
    return {};
  const std::size_t size = std::min(sizeof address.sun_path, length - offsetof(sockaddr_un, sun_path));
  if (size > 0 && address.sun_path[0] == '\0') return "@" + std::string(address.sun_path + 1, size - 1);
  return std::string(address.sun_path, ::strnlen(address.sun_path, size));
}

Peer name_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(v4.sin_port)};
  }
  if (address.ss_family != AF_INET6) return {"unix", 0};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {  // one client must not count as two on a socket for both families
    ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
  } else {
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  }
  return {text.data(), ntohs(v6.sin6_port)};
}

}  // namespace

Result<Listener> open_listener(const std::string& host, std::uint16_t port, int backlog) {
  if (host.starts_with(kUnixPrefix)) return listen_unix(host.substr(kUnixPrefix.size()), backlog);
  if (host.starts_with('[') && host.ends_with(']'))  // an IPv6 address as URLs write it
    return listen_tcp(host.substr(1, host.size() - 2), port, backlog);
  return listen_tcp(host, port, backlog);
}

Result<Listener> adopt_listener(int fd) {
  ESP_CHECK(check_listening(fd));
  int flags = ::fcntl(fd, F_GETFL);
  ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  const std::string path = path_of(fd);
  return Listener{UniqueFd(fd), path.empty() ? bound_port(fd) : std::uint16_t{0}, path, false};
}

Result<std::string> host_of_listener(int fd) {
  ESP_CHECK(check_listening(fd));
  if (const std::string path = path_of(fd); !path.empty()) return std::string(kUnixPrefix) + path;
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return name_of(address).address;
}

AcceptState accept_one(int listener, UniqueFd& socket, Peer& peer) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  int fd = accept_socket(listener, reinterpret_cast<sockaddr*>(&address), &length);
  if (fd >= 0) {
    socket.reset(fd);
    if (address.ss_family != AF_UNIX) set_tcp_flags(fd);
    peer = name_of(address);
    return AcceptState::accepted;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return AcceptState::none_waiting;
  bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  return exhausted ? AcceptState::out_of_descriptors : AcceptState::failed_once;
}

IoState receive(int fd, char* data, std::size_t size, std::size_t& received) {
  ssize_t n = ::recv(fd, data, size, MSG_DONTWAIT);
  received = n > 0 ? static_cast<std::size_t>(n) : 0;
  if (n > 0) return IoState::moved;
  if (n == 0) return IoState::end;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? IoState::would_block : IoState::broken;
}

void SendQueue::push(std::string bytes) {
  if (bytes.empty()) return;
  bytes_ += bytes.size();
  parts_.push_back(std::move(bytes));
}

IoState SendQueue::flush(int fd) {
  bool moved = false;
  while (bytes_ > 0) {
    std::array<iovec, kPartsPerCall> pieces{};
    std::size_t count = std::min(parts_.size() - first_, kPartsPerCall);
    for (std::size_t i = 0; i < count; ++i) {
      auto& part = parts_[first_ + i];
      std::size_t skip = i == 0 ? offset_ : 0;
      pieces[i] = {part.data() + skip, part.size() - skip};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    ssize_t sent = send_now(fd, message);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return IoState::broken;
    if (sent <= 0) return moved ? IoState::moved : IoState::would_block;
    moved = true;
    drop_sent(static_cast<std::size_t>(sent));
  }
  return IoState::moved;
}

void SendQueue::drop_sent(std::size_t sent) {
  bytes_ -= sent;
  if (bytes_ == 0) return clear();
  while (sent >= parts_[first_].size() - offset_) {
    sent -= parts_[first_].size() - offset_;
    parts_[first_] = {};
    ++first_;
    offset_ = 0;
  }
  offset_ += sent;
  if (first_ > 1024) {  // what was sent is not kept for as long as the connection is never quite empty
    parts_.erase(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

void SendQueue::clear() {
  parts_.clear();
  if (parts_.capacity() > 64) parts_.shrink_to_fit();
  first_ = offset_ = bytes_ = 0;
}

}  // namespace espalier::net
