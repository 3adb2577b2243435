// steady_seconds.h: the clock that limits, drains, watches and measured rates count by.
// Units: seconds; steady_seconds() since some moment before the start, it never goes back. Threads: any. Fails: never.
#pragma once

#include <chrono>

namespace espalier {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

}  // namespace espalier
