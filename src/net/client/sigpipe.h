// sigpipe.h: no SIGPIPE on this thread while it lives (private to net/client).
//
// OpenSSL writes to sockets without MSG_NOSIGNAL: a connection that the other side closed must not end the process, and
// a library may not set the process's own handler.
// Threads: lives and dies on one thread.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace espalier::net {

class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t waiting;
    sigpending(&waiting);
    was_waiting_ = sigismember(&waiting, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~SigpipeBlocked() {
    const timespec at_once{};
    if (!was_waiting_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_waiting_ = false;
};

}  // namespace espalier::net
