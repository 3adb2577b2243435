#include <sys/event.h>

#include <ctime>

#include "base/system/unique_fd.h"
#include "net/socket.h"

namespace espalier::net {

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
