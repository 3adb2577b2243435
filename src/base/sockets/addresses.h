// addresses.h: names, addresses and sockets of hosts, of both families. Nothing here waits but the look-up of names.
// Threads: any. Fails: as said at each.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/unique_fd.h"
#include "espalier/error.h"

namespace espalier {

// Where somebody listens.
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(const HostAndPort&) const = default;
};
// "HOST:PORT", "[ADDRESS]:PORT", either behind "tcp://"; `field`: the flag that it came with. Fails: bad_request.
Result<HostAndPort> read_address(std::string_view text, std::string_view field);

// An address as the system takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<std::vector<SocketAddress>> look_up(const HostAndPort& where);  // network
HostAndPort host_and_port(const SocketAddress& address);
std::string describe(const HostAndPort& where);  // "10.0.0.1:20000", "[fd00::1]:20000"

bool is_local(
    const SocketAddress& address);  // of this host, its link, or a private network: nobody reaches it from the internet

SocketAddress own_address(int socket);
SocketAddress peer_address(int socket);
bool is_connected_to_itself(int socket);

// Who wants to listen, as a message names it, and the flag that would choose another port.
struct Listening {
  std::string_view who, flag;
  bool or_at_any = false;  // where the address is none of this machine: at the port of any
};
Result<UniqueFd> listen_at(const HostAndPort& where, const Listening& listening);  // cannot_bind
// At the address of a connected socket, at any port.
Result<UniqueFd> listen_beside(int socket, const Listening& listening);  // cannot_bind
std::uint16_t port_of(int socket);

// A connection that is being made: writable when it is, or has failed. Empty with errno set: it failed at once.
UniqueFd begin_to_connect(const SocketAddress& to);
int connect_error(int socket);  // 0: connected
void send_at_once(int socket);  // no waiting for more to send (TCP_NODELAY)

}  // namespace espalier
