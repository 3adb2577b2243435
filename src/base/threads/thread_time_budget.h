// thread_time_budget.h: how much processor time the calling thread may still take for some work that can be left
// undone. While others have the processor it does not run out, so a busy machine gets as much done.
// Threads: the one that made it. Fails: never.
#pragma once

#include <chrono>

#include "base/threads/thread_time.h"

namespace espalier {

// So much processor time of the calling thread, and whether it is used up.
class ThreadTimeBudget {
 public:
  explicit ThreadTimeBudget(std::chrono::nanoseconds time)
      : end_(thread_time() + time), look_again_(Clock::now() + time) {}

  // The thread's own time is asked for only once the clock, which is cheaper, says that it may be over.
  bool used_up() {
    const Clock::time_point now = Clock::now();
    if (now < look_again_) return false;
    const std::chrono::nanoseconds left = end_ - thread_time();
    look_again_ = now + left;
    return left.count() <= 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::nanoseconds end_;  // of the thread's time
  Clock::time_point look_again_;
};

}  // namespace espalier
