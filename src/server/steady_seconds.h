// steady_seconds.h: the clock that limits, drains and watches of the server count by.
// Units: seconds since some moment before the start; never goes back. Threads: any. Fails: never.
#pragma once

#include <chrono>

namespace espalier::server {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace espalier::server
