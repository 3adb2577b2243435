#include "base/system/signal_watch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/event.h>

#include <ctime>
#include <thread>

namespace espalier {

// There is no sigtimedwait() here. A queue is told of a signal before the question what to do with it, so all are
// ignored: one that is merely blocked would stay with some thread for good.
SignalWatch::SignalWatch(std::initializer_list<int> signals) : queue_(::kqueue()) {
  sigemptyset(&set_);
  if (!queue_) return;
  ::fcntl(queue_.get(), F_SETFD, FD_CLOEXEC);
  for (const int number : signals) {
    struct kevent wanted{};
    EV_SET(&wanted, static_cast<uintptr_t>(number), EVFILT_SIGNAL, EV_ADD | EV_CLEAR, 0, 0, nullptr);
    if (::kevent(queue_.get(), &wanted, 1, nullptr, 0, nullptr) != 0) continue;
    sigaddset(&set_, number);
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(number, &ignore, nullptr);
  }
}

int SignalWatch::wait(std::chrono::milliseconds limit) const {
  if (!queue_) {
    std::this_thread::sleep_for(limit);
    return 0;
  }
  const timespec time{static_cast<time_t>(limit.count() / 1000), static_cast<long>(limit.count() % 1000) * 1'000'000};
  struct kevent came{};
  return ::kevent(queue_.get(), nullptr, 0, &came, 1, &time) == 1 ? static_cast<int>(came.ident) : 0;
}

}  // namespace espalier
