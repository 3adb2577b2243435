#include "net/client/sigpipe.h"

#include <pthread.h>

#include <ctime>

namespace espalier::net {

SigpipeBlocked::SigpipeBlocked() {
  sigemptyset(&pipe_);
  sigaddset(&pipe_, SIGPIPE);
  sigset_t waiting;
  sigpending(&waiting);
  was_waiting_ = sigismember(&waiting, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
}

SigpipeBlocked::~SigpipeBlocked() {
  const timespec at_once{};
  if (!was_waiting_) sigtimedwait(&pipe_, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace espalier::net
