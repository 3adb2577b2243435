#include "base/sockets/timed_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/system/socket_calls.h"

namespace espalier {
namespace {

Error network(std::string message) {
  return {Error::Kind::network, std::move(message), {}, {}};
}

Error of_system(int error) {
  return network(std::system_category().message(error));
}

int milliseconds_to(WaitUntil::Time until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

bool comes_again(int error) {
  return error == EAGAIN || error == EINTR;
}

Result<UniqueFd> connected(const sockaddr* address, socklen_t size, const WaitUntil& until) {
  UniqueFd socket(open_socket(address->sa_family, SOCK_STREAM, 0, Blocking::no));
  if (!socket) return of_system(errno);
  if (address->sa_family != AF_UNIX) {
    constexpr int kIdle = 30, kInterval = 10, kProbes = 3;  // seconds, seconds, probes
    send_at_once(socket.get());
    keep_alive(socket.get(), kIdle, kInterval, kProbes);
  }
  if (::connect(socket.get(), address, size) == 0) return socket;
  if (errno != EINPROGRESS && errno != EAGAIN) return of_system(errno);
  ESP_CHECK(wait_on(socket.get(), POLLOUT, until));
  if (const int error = connect_error(socket.get()); error != 0) return of_system(error);
  if (address->sa_family != AF_UNIX && is_connected_to_itself(socket.get())) return of_system(ECONNREFUSED);
  return socket;
}

}  // namespace

Result<short> wait_on(int socket, short events, const WaitUntil& until) {
  constexpr int kSlice = 50;  // milliseconds
  pollfd waited{socket, events, 0};
  for (;;) {
    const int left = milliseconds_to(until.time);
    if (left == 0 || until.stop.cancelled()) return Error{Error::Kind::timeout, "it does not answer in time", {}, {}};
    const int ready = ::poll(&waited, 1, std::min(left, kSlice));
    if (ready > 0) return waited.revents;
    if (ready < 0 && errno != EINTR) return of_system(errno);
  }
}

Result<UniqueFd> connect_to(const HostAndPort& where, const WaitUntil& until, const AddressFilter& allowed) {
  ESP_TRY(const std::vector<SocketAddress> addresses, look_up(where));
  Result<UniqueFd> last = network("its name has no address");
  for (const SocketAddress& address : addresses) {
    last = allowed && !allowed(address) ? network("its address is not allowed")
                                        : connected(address.get(), address.length, until);
    if (last.ok()) break;
  }
  return last;
}

Result<UniqueFd> connect_to_path(const std::string& path, const WaitUntil& until) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return network("the path of its socket is too long");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return connected(reinterpret_cast<const sockaddr*>(&address), sizeof address, until);
}

Result<> send_all(int socket, std::span<const std::byte> bytes, const WaitUntil& until) {
  while (!bytes.empty()) {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    const ssize_t sent = send_now(socket, message);
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
    if (sent < 0 && !comes_again(errno)) return of_system(errno);
    if (!bytes.empty()) ESP_CHECK(wait_on(socket, POLLOUT, until));
  }
  return success();
}

Result<> receive_all(int socket, std::span<std::byte> into, const WaitUntil& until) {
  while (!into.empty()) {
    const ssize_t got = ::recv(socket, into.data(), into.size(), 0);
    if (got == 0) return network("it closed the connection");
    if (got > 0) into = into.subspan(static_cast<std::size_t>(got));
    if (got < 0 && !comes_again(errno)) return of_system(errno);
    if (got < 0) ESP_CHECK(wait_on(socket, POLLIN, until));
  }
  return success();
}

}  // namespace espalier
