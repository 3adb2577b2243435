#include "base/system/socket_calls.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace espalier {
namespace {

// One call after another, as there is none that does it at once; child_descriptors.h closes what a program that is
// started in between would get.
int prepared(int fd, Blocking blocking) {
  if (fd < 0) return fd;
  const int on = 1;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
  if (blocking == Blocking::no) ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

}  // namespace

int open_socket(int family, int type, int protocol, Blocking blocking) {
  return prepared(::socket(family, type, protocol), blocking);
}

int accept_socket(int listener, sockaddr* peer, socklen_t* length) {
  return prepared(::accept(listener, peer, length), Blocking::no);
}

ssize_t send_now(int fd, const msghdr& message) {
  return ::sendmsg(fd, &message, MSG_DONTWAIT);
}

void keep_alive(int fd, int idle, int interval, int count) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPALIVE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

}  // namespace espalier
