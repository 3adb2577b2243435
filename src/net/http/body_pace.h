// body_pace.h: whether a body comes fast enough: some byte within every `timeout`, and `min_rate` over each of them.
// Units:   bytes, bytes/s. Time comes in as an argument, so that a test can hold it.
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace espalier::net {

// Watches the arrival of one body, and says when it is too slow.
class BodyPace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;

  BodyPace(Duration timeout, std::uint64_t min_rate, TimePoint now)
      : timeout_(timeout), min_rate_(min_rate), last_byte_(now), window_start_(now) {}

  // `total` bytes have come by `now`; true: too slow, give up.
  bool too_slow(std::uint64_t total, TimePoint now) {
    if (total != total_) {
      total_ = total;
      last_byte_ = now;
    }
    if (now - last_byte_ >= timeout_) return true;
    if (now - window_start_ < timeout_) return false;
    auto wanted = min_rate_ * static_cast<std::uint64_t>(timeout_.count()) / 1000;
    bool slow = total_ - window_total_ < wanted;
    window_start_ = now;
    window_total_ = total_;
    return slow;
  }
  TimePoint next_look() const { return std::min(last_byte_, window_start_) + timeout_; }

 private:
  Duration timeout_;
  std::uint64_t min_rate_;
  std::uint64_t total_ = 0, window_total_ = 0;
  TimePoint last_byte_, window_start_;
};

}  // namespace espalier::net
