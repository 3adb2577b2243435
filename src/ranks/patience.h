// patience.h: how long a rank looks again and again for what it waits for, before it sleeps.
//
// To be woken costs more than most exchanges take, so a rank with a processor of its own looks for long; it gives the processor to
// whoever else needs it after a moment. Where ranks share processors it sleeps soon.
// Threads: one. Units: microseconds. Fails: never.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/threads/processors.h"
#include "base/threads/spin_pause.h"

namespace espalier::ranks {

// Looks of one waiter.
class Patience {
 public:
  explicit Patience(int local_size)
      : shares_(local_size > static_cast<int>(std::max<std::size_t>(own_processors().computing.size(), 1))) {}

  void begin() { began_ = Clock::now(); }
  // Pauses; false: it is time to sleep.
  bool look_again() const {
    const auto waited = Clock::now() - began_;
    if (waited > (shares_ ? kShort : kLong)) return false;
    if (waited > (shares_ ? kMoment / 10 : kMoment))
      std::this_thread::yield();
    else
      for (int i = 0; i < kPauses; ++i) spin_pause();
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kMoment{50}, kShort{100}, kLong{2000};
  static constexpr int kPauses = 4;

  const bool shares_;
  Clock::time_point began_;
};

}  // namespace espalier::ranks
