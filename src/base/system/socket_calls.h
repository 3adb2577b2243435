// socket_calls.h: socket calls that systems have different names for.
//
// All sockets made here are closed in programs that we start, and writing to one never raises SIGPIPE.
// Threads: any. Fails: as the calls they stand for, with errno set.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

namespace espalier {

// Whether calls on a new socket wait.
enum class Blocking { yes, no };

int open_socket(int family, int type, int protocol, Blocking blocking);
int accept_socket(int listener, sockaddr* peer, socklen_t* length);  // does not block, nor does what it returns
ssize_t send_now(int fd, const msghdr& message);                     // sendmsg() that neither waits nor raises SIGPIPE

// Probes after `idle` seconds without a byte, every `interval`; the peer is gone after `count` without an answer.
void keep_alive(int fd, int idle, int interval, int count);

}  // namespace espalier
