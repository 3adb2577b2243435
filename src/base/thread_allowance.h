// thread_allowance.h: how much processor time the calling thread may still take for some work that can be left undone.
// While others have the processor it does not run out, so a busy machine gets as much done.
// Threads: the one that made it. Fails: never.
#pragma once

#include <time.h>

#include <chrono>

namespace espalier {

class ThreadAllowance {
 public:
  explicit ThreadAllowance(std::chrono::nanoseconds time)
      : end_(thread_time() + time), look_again_(Clock::now() + time) {}

  // The thread's own time, which a system call tells (0.4 us), is asked for only once the clock says that it may be
  // over.
  bool used_up() {
    const Clock::time_point now = Clock::now();
    if (now < look_again_) return false;
    const std::chrono::nanoseconds left = end_ - thread_time();
    look_again_ = now + left;
    return left.count() <= 0;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static std::chrono::nanoseconds thread_time() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  }

  std::chrono::nanoseconds end_;  // of the thread's time
  Clock::time_point look_again_;
};

}  // namespace espalier
