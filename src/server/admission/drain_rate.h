// drain_rate.h: how fast requests finish, to tell a refused client when trying again makes sense.
// Units:   seconds of any steady clock, passed in. Threads: any. Fails: never.
#pragma once

#include <deque>
#include <mutex>

namespace espalier::server {

// Counts requests finished within the last seconds, and turns that into a Retry-After.
class DrainRate {
 public:
  static constexpr double kWindow = 10, kMostSeconds = 60;

  void finished(double now);
  // Seconds until `waiting` requests will probably have been taken up: 1 to kMostSeconds, rounded up. Without a request
  // finished in the window nothing is known, and the answer is a guess of 5.
  int retry_after(double now, int waiting) const;

 private:
  mutable std::mutex mutex_;
  mutable std::deque<double> finished_;
};

}  // namespace espalier::server
