// remote_health.h: whether those who have blocks for us answer at present, and when they are asked again after they did not.
//
// After a failure nobody asks for half a second, then one caller tries; after another failure nobody does for a second, and so
// on up to half a minute. What a server takes no more (its memory is full) is known apart from what it gives.
// Threads: any. Fails: never. Says one line for each change of state.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

#include "base/metrics.h"
#include "espalier/error.h"

namespace espalier {

// Up, up but full, or down, and since when.
class RemoteHealth {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // who: as lines of the log begin with it, "the peer 10.0.0.2:8999"; empty: no line is written.
  RemoteHealth(std::string who, Gauge& state) : who_(std::move(who)), state_(state) {}

  bool may_try();        // and a failure that follows counts; false: it is down
  bool goes_on() const;  // what may_try() allowed a while ago is still to be done
  void worked();
  void failed(const Error& why);

  bool may_keep();  // likewise, of what is given to it
  void kept();
  void refused(std::string_view why);

 private:
  struct Side {  // asking, and giving
    bool good = true, ever = false;
    bool tried = false;  // although it was not good
    double wait = 0;     // seconds
    Time again = {};
  };
  static bool may(Side& side, Time now);
  static void note(Side& side, Time now);
  void publish();

  const std::string who_;
  mutable std::mutex mutex_;
  Side all_, keeping_;
  Gauge& state_;  // 0: not asked yet, or down; 1: up; 2: up, but takes nothing more
};

}  // namespace espalier
