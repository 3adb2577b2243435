#include "base/system/socket_calls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

namespace espalier {

int open_socket(int family, int type, int protocol, Blocking blocking) {
  return ::socket(family, type | SOCK_CLOEXEC | (blocking == Blocking::no ? SOCK_NONBLOCK : 0), protocol);
}

int accept_socket(int listener, sockaddr* peer, socklen_t* length) {
  return ::accept4(listener, peer, length, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

ssize_t send_now(int fd, const msghdr& message) {
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void keep_alive(int fd, int idle, int interval, int count) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

}  // namespace espalier
