// socket.h: the few POSIX socket calls the server needs, as values and Results. No Boost here.
// Threads: the functions are thread-safe.
// Fails:   open_listener: cannot_bind, with the flag that changes the address. Nothing raises SIGPIPE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/unique_fd.h"
#include "espalier/error.h"

namespace espalier::net {

// A listening socket and the port or path that it is bound to.
struct Listener {
  UniqueFd fd;
  std::uint16_t port = 0;  // the one bound, also when 0 was asked for; 0 for a Unix socket
  std::string unix_path;   // "" for TCP
  bool owns_path = false;  // made here, and to be removed by the owner when it stops; a supervisor's stays
};

// `host`: a name, an IPv4 or IPv6 address, in brackets or not ("::" takes both families), or "unix:PATH". A Unix socket that a killed
// server left behind is replaced; one that somebody still answers on is not.
Result<Listener> open_listener(const std::string& host, std::uint16_t port, int backlog);

// A listening socket that a supervisor opened (systemd's socket activation).
Result<Listener> adopt_listener(int fd);
// Where it listens, as --host would say it: "0.0.0.0", "::1", "unix:PATH". Fails: as adopt_listener().
Result<std::string> host_of_listener(int fd);

// The address of a connected client.
struct Peer {
  std::string address;  // "unix" for a Unix socket
  std::uint16_t port = 0;
};

// What became of one try to accept a connection.
enum class AcceptState { accepted, none_waiting, failed_once, out_of_descriptors };
// Non-blocking. The accepted socket is non-blocking, close-on-exec and has TCP_NODELAY.
AcceptState accept_one(int listener, UniqueFd& socket, Peer& peer);

// What the kernel knows of the other side, without reading: data may still wait in the socket.
struct PeerState {
  bool closed_its_side = false;  // a FIN came, perhaps only a half-close
  bool gone = false;             // reset or closed both ways
};
PeerState peer_state(int fd);

// What became of one try to read or write.
enum class IoState { moved, would_block, end, broken };
IoState receive(int fd, char* data, std::size_t size, std::size_t& received);

// Bytes waiting to go out on one socket.
class SendQueue {
 public:
  void push(std::string bytes);
  IoState flush(int fd);  // moved: something went out (perhaps all); would_block: nothing did
  std::size_t bytes() const { return bytes_; }
  bool empty() const { return bytes_ == 0; }
  void clear();

 private:
  void drop_sent(std::size_t sent);

  std::vector<std::string> parts_;
  std::size_t first_ = 0, offset_ = 0, bytes_ = 0;
};

}  // namespace espalier::net
