#include "base/thread_priority.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

namespace espalier {

// A third of the processor beside a thread that wants all of it. Less would save that one nothing that can be measured,
// once this one asks whether anybody waits, and what is to be done here would take seconds.
void lower_thread_priority() {
  constexpr int kNice = 3;
  const int now = ::getpriority(PRIO_PROCESS, 0);  // Linux: of the thread
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, std::max(now, kNice)));
  thread_steps_aside = true;
}

void let_others_go_on() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kOwnTurn{100};
  thread_local Clock::time_point begun;
  const auto now = Clock::now();
  if (now - begun < kOwnTurn) return;
  ::sched_yield();
  begun = Clock::now();
}

}  // namespace espalier
