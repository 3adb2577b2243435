#include "base/system/signal_watch.h"

#include <signal.h>

#include <ctime>

namespace espalier {

SignalWatch::SignalWatch(std::initializer_list<int> signals) {
  sigemptyset(&set_);
  for (const int number : signals) sigaddset(&set_, number);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
}

int SignalWatch::wait(std::chrono::milliseconds limit) const {
  const timespec time{limit.count() / 1000, (limit.count() % 1000) * 1'000'000};
  const int number = sigtimedwait(&set_, nullptr, &time);
  return number > 0 ? number : 0;
}

}  // namespace espalier
