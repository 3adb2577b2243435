#include <poll.h>

#include "net/socket.h"

namespace espalier::net {

PeerState peer_state(int fd) {
  pollfd query{fd, POLLRDHUP, 0};
  if (::poll(&query, 1, 0) < 0) return {};
  return {(query.revents & POLLRDHUP) != 0, (query.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0};
}

}  // namespace espalier::net
