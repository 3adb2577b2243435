#include "net/client/sigpipe.h"

#include <signal.h>

namespace espalier::net {
namespace {

bool waiting(const sigset_t& pending) {
  return sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

// Only for what does not write to sockets: these keep it away themselves, as libcurl and base/system/socket_calls.h set
// SO_NOSIGPIPE.
SigpipeBlocked::SigpipeBlocked() {
  sigset_t pending;
  sigpending(&pending);
  was_waiting_ = waiting(pending);
  sigemptyset(&pipe_);
  sigaddset(&pipe_, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
}

SigpipeBlocked::~SigpipeBlocked() {
  sigset_t pending;
  sigpending(&pending);
  int number = 0;
  if (!was_waiting_ && waiting(pending)) sigwait(&pipe_, &number);  // it is there: returns at once
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace espalier::net
