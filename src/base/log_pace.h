// log_pace.h: lines of the log that others can cause as often as they like: one now and then, with how many were left out.
// Threads: any. Units: seconds. Fails: never.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace espalier {

// Lets a line through at most every so often.
class LogPace {
 public:
  using Clock = std::chrono::steady_clock;
  explicit LogPace(Clock::duration every = std::chrono::seconds(5)) : every_(every) {}

  // What to put behind the line: "", or " (and 7 more like it)". Nothing: it is left out.
  std::optional<std::string> take(Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    if (now < next_) {
      ++left_out_;
      return std::nullopt;
    }
    next_ = now + every_;
    const std::uint64_t left_out = left_out_;
    left_out_ = 0;
    return left_out == 0 ? std::string() : " (and " + std::to_string(left_out) + " more like it)";
  }

 private:
  const Clock::duration every_;
  std::mutex mutex_;
  Clock::time_point next_{};
  std::uint64_t left_out_ = 0;
};

}  // namespace espalier
