// waiting.h: how a thread of a program waits for what is to come, and how it is called away from there.
//
// All long waits of lang are wait_for(). About twenty times a second it looks whether the thread was called away (its
// batch has ended), and lets the host see to what it must: a language with signals of its own (Python's Ctrl-C).
// Threads: any; set_wait_hook() before programs run.
// Fails:   ProgramError `cancelled` in a thread that was called away; what the host's function throws.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "base/threads/adaptive_spin.h"

namespace espalier::lang {

// Called on a thread that waits, without locks; what it throws ends the wait and leaves the state as it is. The last
// one that was set counts; empty for none.
void set_wait_hook(std::function<void()> hook);

// While it lives, waits of this thread end once `over` is true.
class WaitCancellation {
 public:
  explicit WaitCancellation(const std::atomic<bool>& over);
  ~WaitCancellation();
  WaitCancellation(const WaitCancellation&) = delete;
  WaitCancellation& operator=(const WaitCancellation&) = delete;

 private:
  const std::atomic<bool>* before_;
};

void check_interrupts();  // what a wait does now and then

inline constexpr std::chrono::milliseconds kInterruptCheck{50};

inline AdaptiveSpin& adaptive_spin_of_this_thread() {
  thread_local AdaptiveSpin spin;
  return spin;
}

// Whether it comes while one looks.
template <class There>
bool comes_soon(std::unique_lock<std::mutex>& lock, There there) {
  AdaptiveSpin& spin = adaptive_spin_of_this_thread();
  lock.unlock();
  const bool came = spin.spin_until([&] {
    const std::lock_guard own(*lock.mutex());
    return there();
  });
  lock.lock();
  return came && there();
}

// False: it is not there by `until`; none: it is waited for, however long.
template <class There>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                std::optional<std::chrono::steady_clock::time_point> until, There there) {
  using Clock = std::chrono::steady_clock;
  if (there() || comes_soon(lock, there)) return true;
  const auto next_look = [&] {
    return std::min(until.value_or(Clock::time_point::max()), Clock::now() + kInterruptCheck);
  };
  while (!changed.wait_until(lock, next_look(), there)) {
    if (until && Clock::now() >= *until) return false;
    lock.unlock();
    check_interrupts();
    lock.lock();
  }
  adaptive_spin_of_this_thread().slept();
  return true;
}

template <class There>
void wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, There there) {
  wait_until(changed, lock, {}, there);
}

}  // namespace espalier::lang
