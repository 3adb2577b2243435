// adaptive_spin.h: looking for what comes within microseconds, before going to sleep for it.
//
// To be woken costs a thread 5 to 50 us, more than some of what is waited for takes. So a waiter looks for a while
// first, but only as long as that pays: after a look in vain it goes to sleep at once, until a sleep turns out to have
// been a short one. Who waits for something slow, or for nothing, burns no processor.
// Order:   spin_until(); where that was in vain, sleep as without it, then slept().
// Threads: the one that waits.
#pragma once

#include <chrono>
#include <thread>

#include "base/threads/spin_pause.h"

namespace espalier {

// Spins for up to 50 us before a sleep, and stops doing so once that no longer pays.
class AdaptiveSpin {
 public:
  // True as soon as `there()` is; false when it is time to sleep.
  template <class There>
  bool spin_until(There there) {
    began_ = Clock::now();
    if (!pays_) return false;
    do {
      if (there()) return true;
      for (int i = 0; i < kPauses; ++i) spin_pause();
      std::this_thread::yield();  // who brings it may need this processor
    } while (Clock::now() - began_ < kLook);
    pays_ = false;
    return false;
  }
  void slept() { pays_ = Clock::now() - began_ < kShort; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kLook{50}, kShort{100};  // the second has a wake-up in it
  static constexpr int kPauses = 8;

  Clock::time_point began_;
  bool pays_ = false;
};

}  // namespace espalier
