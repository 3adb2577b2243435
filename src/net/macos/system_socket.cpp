#include "net/system_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/event.h>
#include <unistd.h>

#include <ctime>

#include "base/system/unique_fd.h"
#include "net/socket.h"

namespace espalier::net {
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

// poll() has no word for a peer that sends no more; a queue has, also while data still waits.
PeerState peer_state(int fd) {
  const UniqueFd queue(::kqueue());
  struct kevent wanted[2];
  EV_SET(&wanted[0], static_cast<uintptr_t>(fd), EVFILT_READ, EV_ADD, 0, 0, nullptr);
  EV_SET(&wanted[1], static_cast<uintptr_t>(fd), EVFILT_WRITE, EV_ADD, 0, 0, nullptr);
  struct kevent told[2];
  const timespec at_once{};
  const int count = ::kevent(queue.get(), wanted, 2, told, 2, &at_once);
  PeerState state;
  bool no_reader = false;
  for (int i = 0; i < count; ++i) {
    if (told[i].flags & EV_ERROR) state.gone = true;  // no such descriptor
    if (!(told[i].flags & EV_EOF)) continue;
    (told[i].filter == EVFILT_READ ? state.closed_its_side : no_reader) = true;
    if (told[i].fflags != 0) state.gone = true;  // a reset
  }
  if (state.closed_its_side && no_reader) state.gone = true;
  return state;
}

}  // namespace espalier::net
