// sigpipe.h: no SIGPIPE on this thread while it lives (private to net/client).
//
// OpenSSL writes to sockets without MSG_NOSIGNAL: a connection that the other side closed must not end the process, and
// a library may not set the process's own handler.
// Threads: lives and dies on one thread.
#pragma once

#include <csignal>

namespace espalier::net {

// Blocks SIGPIPE for the calling thread, and takes away one that came meanwhile.
class SigpipeBlocked {
 public:
  SigpipeBlocked();
  ~SigpipeBlocked();
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
  bool was_waiting_ = false;
};

}  // namespace espalier::net
