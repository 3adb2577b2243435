#include "base/sockets/addresses.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>

#include "base/system/socket_calls.h"

namespace espalier {
namespace {

constexpr int kWaiting = 256;  // connections that were not accepted yet

void switch_on(int socket, int level, int option, int value = 1) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

sockaddr_in& v4(SocketAddress& address) {
  return reinterpret_cast<sockaddr_in&>(address.storage);
}
sockaddr_in6& v6(SocketAddress& address) {
  return reinterpret_cast<sockaddr_in6&>(address.storage);
}

SocketAddress with_port(SocketAddress address, std::uint16_t port) {
  (address.storage.ss_family == AF_INET6 ? v6(address).sin6_port : v4(address).sin_port) = htons(port);
  return address;
}

SocketAddress any_of(int family, std::uint16_t port) {
  SocketAddress address;
  address.storage.ss_family = static_cast<sa_family_t>(family);
  address.length = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return with_port(address, port);
}

UniqueFd listen_on(const SocketAddress& address) {
  UniqueFd socket(open_socket(address.storage.ss_family, SOCK_STREAM, 0, Blocking::no));
  if (!socket) return socket;
  switch_on(socket.get(), SOL_SOCKET, SO_REUSEADDR);
  if (address.storage.ss_family == AF_INET6) switch_on(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), address.get(), address.length) != 0 || ::listen(socket.get(), kWaiting) != 0) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

Error cannot_listen(const HostAndPort& where, const Listening& listening) {
  const int error = errno;
  std::string message =
      fmt::format("{} cannot listen at {}: {}", listening.who, describe(where), std::generic_category().message(error));
  if (error == EADDRINUSE)
    message += fmt::format("; stop the program that uses the port, or choose another with --{}", listening.flag);
  return {Error::Kind::cannot_bind, std::move(message), std::string(listening.flag), {}};
}

// RFC 1918, 3927, 6598 and the loopback network.
bool is_local_v4(const std::uint8_t* b) {
  return b[0] == 127 || b[0] == 10 || (b[0] == 172 && (b[1] & 0xf0) == 16) || (b[0] == 192 && b[1] == 168) ||
         (b[0] == 169 && b[1] == 254) || (b[0] == 100 && (b[1] & 0xc0) == 64);
}

// A decimal number of at most five digits.
std::optional<int> port_in(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535) return std::nullopt;
  return port;
}

}  // namespace

Result<HostAndPort> read_address(std::string_view text, std::string_view field) {
  std::string_view rest = text;
  if (rest.starts_with("tcp://")) rest.remove_prefix(6);
  const std::size_t colon = rest.rfind(':');
  std::string_view host = rest.substr(0, colon == std::string_view::npos ? 0 : colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto port = colon == std::string_view::npos ? std::nullopt : port_in(rest.substr(colon + 1));
  if (host.empty() || !port || (!bracketed && host.find(':') != std::string_view::npos))
    return bad_request(
        fmt::format("--{} is \"{}\": it must be HOST:PORT or [ADDRESS]:PORT, as in 10.0.0.1:20000 or [fd00::1]:20000",
                    field, text),
        std::string(field));
  return HostAndPort{std::string(host), static_cast<std::uint16_t>(*port)};
}

Result<std::vector<SocketAddress>> look_up(const HostAndPort& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &list);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* all) {
    if (all != nullptr) ::freeaddrinfo(all);
  });
  if (code != 0) return Error{Error::Kind::network, fmt::format("{}: {}", where.host, ::gai_strerror(code)), {}, {}};
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    addresses.emplace_back();
    std::memcpy(&addresses.back().storage, each->ai_addr, each->ai_addrlen);
    addresses.back().length = each->ai_addrlen;
  }
  return addresses;
}

HostAndPort host_and_port(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  ::getnameinfo(address.get(), address.length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  SocketAddress copy = address;
  return {host.data(), ntohs(address.storage.ss_family == AF_INET6 ? v6(copy).sin6_port : v4(copy).sin_port)};
}

std::string describe(const HostAndPort& where) {
  return where.host.find(':') == std::string::npos ? fmt::format("{}:{}", where.host, where.port)
                                                   : fmt::format("[{}]:{}", where.host, where.port);
}

bool is_local(const SocketAddress& address) {
  SocketAddress copy = address;
  if (address.storage.ss_family == AF_INET6) {
    const in6_addr& a = v6(copy).sin6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&a))
      return IN6_IS_ADDR_LOOPBACK(&a) || IN6_IS_ADDR_LINKLOCAL(&a) || (a.s6_addr[0] & 0xfe) == 0xfc;
    return is_local_v4(a.s6_addr + 12);
  }
  return is_local_v4(reinterpret_cast<const std::uint8_t*>(&v4(copy).sin_addr));
}

SocketAddress own_address(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return address;
}

SocketAddress peer_address(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return address;
}

// A caller whose own port is the one it calls, where nobody listens, is answered by itself.
bool is_connected_to_itself(int socket) {
  const HostAndPort own = host_and_port(own_address(socket)), peer = host_and_port(peer_address(socket));
  return own.port == peer.port && own.host == peer.host;
}

Result<UniqueFd> listen_at(const HostAndPort& where, const Listening& listening) {
  auto addresses = look_up(where);
  if (!addresses.ok() && !listening.or_at_any) return addresses.error();
  if (addresses.ok())
    for (const SocketAddress& address : *addresses) {
      UniqueFd socket = listen_on(address);
      if (socket) return socket;
      if (errno != EADDRNOTAVAIL) return cannot_listen(where, listening);
    }
  if (!listening.or_at_any) return cannot_listen(where, listening);
  UniqueFd socket = listen_on(any_of(AF_INET6, where.port));
  if (!socket && errno != EADDRINUSE) socket = listen_on(any_of(AF_INET, where.port));
  if (!socket) return cannot_listen(where, listening);
  return socket;
}

Result<UniqueFd> listen_beside(int connected, const Listening& listening) {
  UniqueFd socket = listen_on(with_port(own_address(connected), 0));
  if (!socket) return cannot_listen(host_and_port(own_address(connected)), listening);
  return socket;
}

std::uint16_t port_of(int socket) {
  return host_and_port(own_address(socket)).port;
}

UniqueFd begin_to_connect(const SocketAddress& to) {
  UniqueFd socket(open_socket(to.storage.ss_family, SOCK_STREAM, 0, Blocking::no));
  if (!socket || ::connect(socket.get(), to.get(), to.length) == 0 || errno == EINPROGRESS) return socket;
  const int error = errno;
  socket.reset();
  errno = error;
  return socket;
}

int connect_error(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

void send_at_once(int socket) {
  switch_on(socket, IPPROTO_TCP, TCP_NODELAY);
}

}  // namespace espalier
